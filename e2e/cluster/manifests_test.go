package cluster_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lameduck/e2e/cluster"
	"lameduck/e2e/world"
)

// TestManifestsAreAccepted: the API server accepts what manifests/ holds, and nothing in it goes against Pod Security's
// strictest level. What is a kustomization goes through kustomize; components are no manifests by themselves.
func TestManifestsAreAccepted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	root, err := world.Repository(ctx)
	if err != nil {
		t.Fatal(err)
	}
	manifests := findManifests(t, filepath.Join(root, "manifests"))
	if len(manifests) == 0 {
		t.Skip("there are no manifests in this build")
	}
	for _, path := range manifests {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if said := dryRun(ctx, t, path); strings.Contains(said, "would violate PodSecurity") {
				t.Errorf("it goes against Pod Security: %s", said)
			}
		})
	}
}

// findManifests returns files with objects of an API, and folders that kustomize builds.
func findManifests(t *testing.T, root string) []string {
	t.Helper()
	object := regexp.MustCompile(`(?m)^apiVersion:`)
	function := regexp.MustCompile(`(?m)^transformers:`)
	component := regexp.MustCompile(`(?m)^kind: *Component`)
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if entry.Name() == "testdata" {
			return fs.SkipDir
		}
		text, err := os.ReadFile(filepath.Join(path, "kustomization.yaml"))
		switch {
		case err != nil: // no kustomization
		case function.Match(text): // kubectl runs none: e2e/manifest has kustomize do so
			return nil
		default:
			if !component.Match(text) {
				found = append(found, path)
			}
			return nil
		}
		files, err := filepath.Glob(filepath.Join(path, "*.yaml"))
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if object.Match(text) {
				found = append(found, file)
			}
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return found
}

// dryRun lets the API server judge a manifest, and returns its warnings.
func dryRun(ctx context.Context, t *testing.T, path string) string {
	t.Helper()
	what := []string{"-n", cluster.Namespace, "-f", path}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		what = []string{"-k", path} // it names its namespace
	}
	cmd := here.Command(ctx, append([]string{here.Parts.Kube, "kubectl", "apply", "--server-side", "--dry-run=server"}, what...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the API server does not accept it: %s", out)
	}
	return string(out)
}
