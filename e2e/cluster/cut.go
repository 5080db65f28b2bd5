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
