package cluster

import (
	"context"
	"fmt"
	"strings"
	"text/template"

	"lameduck/e2e/world"
)

// Namespace is where the backends are.
const Namespace = "e2e"

// Backend is a way of running three pods of an application behind the Gateway. Its zero value is a bare Deployment
// of an application that exits at once on SIGTERM.
type Backend struct {
	// Name is also the first element of its path; Title says what it is.
	Name, Title string
	// OnTerm is world.Exit if empty.
	OnTerm world.TermBehaviour
	// Grace is the pods' grace period in seconds, 0 for 30; Replicas is 0 for 3.
	Grace, Replicas int
	// Sleep is the application's preStop sleep in seconds; Hold gives it the hold hook instead.
	Sleep int
	Hold  bool
	// Native and Plain add lameduck as a sidecar or as a container, with further flags.
	Native, Plain bool
	Lameduck      []string
	// Relay makes the pods' peers: "static" is their own Service's name, "service" the same asked of the API server,
	// "auto" whatever that knows; empty: none.
	Relay string
	// Retries has Envoy try again what was refused.
	Retries bool
	// Account is the service account whose token lameduck has: "lameduck" may ask the API server, "stranger" may not;
	// empty: no token.
	Account string
	// Labels and Annotations are further ones of its pods.
	Labels, Annotations map[string]string
	// Component is the folder of a kustomize component that it goes through.
	Component string
}

// EnvoySlices is the flag that tells lameduck where to ask for Envoy's addresses.
const EnvoySlices = "--envoy-slices=" + GatewayNamespace + "/gateway.envoyproxy.io/owning-gateway-name=gateway"

func (b Backend) withDefaults() Backend {
	if b.OnTerm == "" {
		b.OnTerm = world.Exit
	}
	if b.Grace == 0 {
		b.Grace = 30
	}
	if b.Replicas == 0 {
		b.Replicas = 3
	}
	return b
}

// manifest is what is applied for it.
func (b Backend) manifest() (string, error) {
	parsed, err := template.ParseFS(manifests, "manifest/backend.yaml")
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = parsed.Execute(&text, b.withDefaults())
	return text.String(), err
}

// Deploy applies backends and waits until all their pods are ready.
func (c *Cluster) Deploy(ctx context.Context, backends ...Backend) error {
	var all strings.Builder
	for _, b := range backends {
		text, err := b.manifest()
		if err == nil && b.Component != "" {
			text, err = c.kustomize(ctx, b, text)
		}
		if err != nil {
			return err
		}
		all.WriteString(text + "\n---\n")
	}
	if err := c.Apply(ctx, all.String()); err != nil {
		return err
	}
	for _, b := range backends {
		if _, err := c.Kubectl(ctx, "rollout", "status", "-n", Namespace, "--timeout=90s", "deployment/"+b.Name); err != nil {
			return fmt.Errorf("deploy %s: %w", b.Name, err)
		}
	}
	return nil
}

// Pods are the names of a backend's pods that are not ending.
func (c *Cluster) Pods(ctx context.Context, backend string) ([]string, error) {
	out, err := c.Kubectl(ctx, "get", "pods", "-n", Namespace, "-l", "app="+backend,
		"-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.deletionTimestamp}{"\n"}{end}`)
	var alive []string
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) == 1 {
			alive = append(alive, fields[0])
		}
	}
	return alive, err
}

// Remove deletes backends. Their pods are given a second, and not waited for: without an owner nobody replaces them.
func (c *Cluster) Remove(ctx context.Context, backends ...Backend) error {
	var names []string
	for _, b := range backends {
		names = append(names, b.Name)
	}
	ours := "app in (" + strings.Join(names, ",") + ")"
	if _, err := c.Kubectl(ctx, "delete", "deployments,replicasets", "-n", Namespace, "-l", ours, "--cascade=orphan"); err != nil {
		return err
	}
	_, err := c.Kubectl(ctx, "delete", "pods,services,httproutes,backendtrafficpolicies", "-n", Namespace, "-l", ours, "--grace-period=1", "--wait=false")
	return err
}
