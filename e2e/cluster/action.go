package cluster

import (
	"context"
	"fmt"
)

// Action is a way of ending pods of a backend.
type Action struct {
	Name string
	// Ends is how many of the pods end by it; 0 stands for all.
	Ends int
	// Do carries it out on a backend with the given pods.
	Do func(ctx context.Context, c *Cluster, backend string, pods []string) error
}

// DeletePod is kubectl delete pod, of one.
func DeletePod() Action {
	return Action{"kubectl delete pod", 1, func(ctx context.Context, c *Cluster, _ string, pods []string) error {
		_, err := c.Kubectl(ctx, "delete", "pod", "-n", Namespace, "--wait=false", pods[0])
		return err
	}}
}

// Restart is kubectl rollout restart.
func Restart() Action {
	return Action{"rollout restart", 0, func(ctx context.Context, c *Cluster, backend string, _ []string) error {
		_, err := c.Kubectl(ctx, "rollout", "restart", "-n", Namespace, "deployment/"+backend)
		return err
	}}
}

// ScaleDown is kubectl scale, by one pod.
func ScaleDown() Action {
	return Action{"scale down", 1, func(ctx context.Context, c *Cluster, backend string, pods []string) error {
		_, err := c.Kubectl(ctx, "scale", "-n", Namespace, fmt.Sprintf("--replicas=%d", len(pods)-1), "deployment/"+backend)
		return err
	}}
}

// Evict is kubectl drain, of the node, but of one pod only: there is no other node for the rest to go to.
func Evict() Action {
	return Action{"eviction", 1, func(ctx context.Context, c *Cluster, backend string, pods []string) error {
		if _, err := c.Kubectl(ctx, "label", "pod", "-n", Namespace, pods[0], "evict="+backend); err != nil {
			return err
		}
		if _, err := c.Kubectl(ctx, "drain", "--pod-selector=evict="+backend, "--timeout=120s", "node/node"); err != nil {
			return err
		}
		_, err := c.Kubectl(ctx, "uncordon", "node/node")
		return err
	}}
}
