package cluster

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"lameduck/e2e/cluster/part"
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
	name, tag, _ := strings.Cut(part.LameduckImage, ":")
	kustomization, err := json.Marshal(Object{
		"resources": []string{"backend.yaml"}, "components": []string{component},
		"images": []Object{{"name": "lameduck", "newName": name, "newTag": tag}},
	})
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
