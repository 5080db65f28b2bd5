package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"lameduck/e2e/cluster/part"
	"lameduck/e2e/manifest"
	"lameduck/e2e/world"
)

// Labelled is a namespace whose pods the admission policy shall inject.
const Labelled = "e2e-labelled"

// Inject is the label with which a pod asks for the admission policy.
func Inject() map[string]string { return map[string]string{"lameduck/inject": "enabled"} }

// Manifests is a folder of the manifests that people install.
func Manifests(ctx context.Context, name string) (string, error) {
	root, err := world.Repository(ctx)
	return filepath.Join(root, "manifests", name), err
}

// installPolicy applies the admission policy, and returns when the API server acts by it.
func (c *Cluster) installPolicy(ctx context.Context, s *steps) error {
	dir, err := Manifests(ctx, "policy")
	if err != nil {
		return err
	}
	text, err := c.Kubectl(ctx, "kustomize", dir)
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, strings.ReplaceAll(text, "lameduck:dev", part.LameduckImage)); err != nil {
		return err
	}
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for watchdog := time.After(time.Minute); ; {
		if err = c.Admit(ctx, manifest.Admissions()[0]); err == nil {
			s.reached("the admission policy injects")
			return nil
		}
		select {
		case <-again.C:
		case <-watchdog:
			return errors.Join(errors.New("the admission policy does not inject"), err)
		}
	}
}

// Admit asks the API server what it makes of a pod, and tells what is not as it should be in that.
func (c *Cluster) Admit(ctx context.Context, a manifest.Admission) error {
	namespace := Namespace
	if a.Labelled {
		namespace = Labelled
	}
	answer, err := c.Admitted(ctx, namespace, a.Pod())
	if err != nil {
		return err
	}
	return a.Check([]byte(answer))
}

// Admitted is what the API server would make of a pod, as JSON.
func (c *Cluster) Admitted(ctx context.Context, namespace, pod string) (string, error) {
	return c.Run(ctx, pod, c.Parts.Kube, "kubectl", "create", "-n", namespace, "--dry-run=server", "-o", "json", "-f", "-")
}
