package cluster

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"lameduck/e2e/cluster/node"
	"lameduck/e2e/world"
)

//go:embed manifest
var manifests embed.FS

// ownManifest returns one of the harness's manifests.
func ownManifest(name string) string {
	text, err := manifests.ReadFile("manifest/" + name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// GatewayNamespace is where Envoy Gateway and its Envoys are.
const GatewayNamespace = "envoy-gateway-system"

// bringUp follows the node's start, and installs what belongs to every cluster.
func (c *Cluster) bringUp(ctx context.Context, reports *json.Decoder, s *steps) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	images := make(chan error, 1)
	for {
		var report node.Report
		if err := reports.Decode(&report); err != nil {
			return fmt.Errorf("the node ended without a word (see log/node.log): %w", err)
		}
		switch {
		case report.Error != "":
			return fmt.Errorf("the node: %s", report.Error)
		case report.Step == "etcd": // containerd answers by then
			go func() { images <- c.importImages(ctx, s) }()
		case report.Ready:
			s.reached("API server answers")
			return c.install(ctx, s, images)
		}
	}
}

func (c *Cluster) importImages(ctx context.Context, s *steps) error {
	for _, archive := range c.Parts.Images {
		if _, err := c.Run(ctx, "", "ctr", "images", "import", archive); err != nil {
			return err
		}
	}
	s.reached("%d images imported", len(c.Parts.Images))
	return nil
}

// install applies the manifests, as much as possible at once. No pod may come before the images: the kubelet would try
// again only after a while.
func (c *Cluster) install(ctx context.Context, s *steps, images <-chan error) error {
	if err := c.Apply(ctx, ownManifest("namespaces.yaml")); err != nil {
		return err
	}
	err := together(
		func() error { return c.nodeReady(ctx, s) },
		func() error { return c.prepareGateway(ctx, s) },
		func() error { return c.installPolicy(ctx, s) },
		func() error { return <-images },
	)
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, ownManifest("accounts.yaml")+"\n---\n"+ownManifest("dns.yaml")+"\n---\n"+ownManifest("gateway.yaml")); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "wait", "--for=condition=Programmed", "--timeout=120s", "-n", GatewayNamespace, "gateway/gateway"); err != nil {
		return err
	}
	s.reached("Gateway programmed: Envoy is ready")
	return c.firstAnswer(ctx, s)
}

// Hello is a backend that every cluster has: one for a person to try things on, and for tests of pods that live on.
func Hello() Backend {
	return Backend{Name: "hello", OnTerm: world.Graceful, Native: true, Hold: true, Relay: "auto", Account: "lameduck",
		Lameduck: []string{EnvoySlices}}
}

func (c *Cluster) firstAnswer(ctx context.Context, s *steps) error {
	if err := c.Deploy(ctx, Hello()); err != nil {
		return err
	}
	s.reached("three pods are ready")
	envoy, err := c.EnvoyAddress(ctx)
	if err != nil {
		return err
	}
	// The client waits for a first answer; a load of nothing is all that is wanted beyond.
	l, err := c.StartLoad(ctx, envoy, Hello().Name, world.Stream{Rate: 1, Timeout: timeout, Path: "/", Until: time.Millisecond})
	if err != nil {
		return err
	}
	s.reached("first answer through Envoy: http://%s/%s", envoy, Hello().Name)
	_, err = l.Outcome()
	return err
}

func (c *Cluster) nodeReady(ctx context.Context, s *steps) error {
	if _, err := c.Kubectl(ctx, "wait", "--for=create", "--timeout=60s", "node/"+node.Hostname); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=60s", "node/"+node.Hostname); err != nil {
		return err
	}
	s.reached("node is Ready")
	return nil
}

// prepareGateway makes the types that Envoy Gateway knows, and, with its own program, the certificates that it and Envoy
// know each other by.
func (c *Cluster) prepareGateway(ctx context.Context, s *steps) error {
	err := together(
		func() error {
			// The definitions are too large for a client-side apply.
			_, err := c.Kubectl(ctx, "apply", "--server-side", "-R", "-f", c.Parts.CRDs)
			return err
		},
		func() error {
			args := []string{"env", "ENVOY_GATEWAY_NAMESPACE=" + GatewayNamespace, c.Parts.Gateway, "certgen"}
			if c.Parts.GatewayVersion == "" {
				// A webhook that old versions do not know.
				args = append(args, "--disable-topology-injector")
			}
			_, err := c.Run(ctx, "", args...)
			return err
		},
	)
	if err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "--all", "crds"); err != nil {
		return err
	}
	s.reached("Envoy Gateway's CRDs and certificates are made")
	return nil
}

// together runs all and returns all errors.
func together(all ...func() error) error {
	failed := make([]error, len(all))
	var group sync.WaitGroup
	for i, do := range all {
		group.Go(func() { failed[i] = do() })
	}
	group.Wait()
	return errors.Join(failed...)
}

// EnvoyAddress is where the node reaches the Gateway's Envoy.
func (c *Cluster) EnvoyAddress(ctx context.Context) (string, error) {
	out, err := c.Kubectl(ctx, "get", "service", "-n", GatewayNamespace,
		"-l", "gateway.envoyproxy.io/owning-gateway-name=gateway", "-o", "jsonpath={.items[0].spec.clusterIP}")
	return strings.TrimSpace(out), err
}
