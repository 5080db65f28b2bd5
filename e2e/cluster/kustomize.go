package cluster

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// kustomize puts a backend's manifest through its component.
func (c *Cluster) kustomize(ctx context.Context, b Backend, text string) (string, error) {
	folder, err := Folder(ctx)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(folder, "kustomize-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// kustomize takes no absolute path.
	component, err := filepath.Rel(dir, b.Component)
	if err != nil {
		return "", err
	}
	var images []Object
	for from, to := range b.Images {
		name, tag, _ := strings.Cut(to, ":")
		images = append(images, Object{"name": from, "newName": name, "newTag": tag})
	}
	kustomization, err := json.Marshal(Object{"resources": []string{"backend.yaml"}, "components": []string{component}, "images": images})
	if err != nil {
		return "", err
	}
	for name, content := range map[string]string{"backend.yaml": text, "kustomization.yaml": string(kustomization)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return "", err
		}
	}
	return c.Kubectl(ctx, "kustomize", dir)
}
