package cluster

import (
	"context"
	"fmt"
)

// Cut takes the API server away from a pod: what it sends there is refused, on connections that stand already, too.
func (c *Cluster) Cut(ctx context.Context, pod string) error {
	ip, err := c.Kubectl(ctx, "get", "pod", "-n", Namespace, pod, "-o", "jsonpath={.status.podIP}")
	if err != nil {
		return err
	}
	// After kube-proxy's translation the Service's address is the node's own.
	rules := fmt.Sprintf(`table inet cut {
	chain input {
		type filter hook input priority 0; policy accept;
		ip saddr %s tcp dport 6443 reject with tcp reset
	}
}
`, ip)
	if _, err := c.Run(ctx, rules, "nft", "-f", "-"); err != nil {
		return err
	}
	// A connection without traffic would not notice. Whoever watches EndpointSlices has to confirm this change.
	_, err = c.Kubectl(ctx, "annotate", "endpointslices", "-n", Namespace, "--all", "--overwrite", "e2e.local/cut="+pod)
	return err
}

// Mend gives back what Cut has taken: a later pod may have the same address.
func (c *Cluster) Mend(ctx context.Context) error {
	_, err := c.Run(ctx, "", "nft", "delete", "table", "inet", "cut")
	return err
}

// signalAPIServer sends a signal to the API server: STOP, and it answers nothing to anybody; CONT, and it goes on.
func (c *Cluster) signalAPIServer(ctx context.Context, signal string) error {
	find := `grep -lzx '[k]ube-apiserver' /proc/[0-9]*/cmdline | cut -d/ -f3` // and not grep itself
	_, err := c.Run(ctx, "", "sh", "-c", "kill -"+signal+" $("+find+")")
	return err
}

// StopAPIServer stops the API server's process.
func (c *Cluster) StopAPIServer(ctx context.Context) error { return c.signalAPIServer(ctx, "STOP") }

// ContinueAPIServer lets it go on.
func (c *Cluster) ContinueAPIServer(ctx context.Context) error { return c.signalAPIServer(ctx, "CONT") }
