package cluster

import (
	"context"
	"fmt"
	"strings"
)

// controlPlane is Envoy Gateway's container. While it is frozen Envoy hears of nothing, as in a cluster so large that
// news take their time.
func (c *Cluster) controlPlane(ctx context.Context) (string, error) {
	out, err := c.Kubectl(ctx, "get", "pods", "-n", GatewayNamespace, "-l", "control-plane=envoy-gateway",
		"-o", "jsonpath={.items[0].status.containerStatuses[0].containerID}")
	if err != nil {
		return "", err
	}
	id, ok := strings.CutPrefix(out, "containerd://")
	if !ok {
		return "", fmt.Errorf("the container of Envoy Gateway has no id but %q", out)
	}
	return id, nil
}

func (c *Cluster) freeze(ctx context.Context, container string) error {
	_, err := c.Run(ctx, "", "ctr", "tasks", "pause", container)
	return err
}

func (c *Cluster) thaw(ctx context.Context, container string) error {
	_, err := c.Run(ctx, "", "ctr", "tasks", "resume", container)
	return err
}
