package cluster

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"lameduck/e2e/cluster/node"
	"lameduck/e2e/cluster/part"
)

// Object is a piece of a manifest.
type Object map[string]any

// Strictest is a container's security context under Pod Security's strictest level.
func Strictest() Object {
	return Object{
		"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": Object{"drop": []string{"ALL"}},
	}
}

// Witness is a container that tells what becomes of it; more are further fields of it.
func Witness(name string, args []string, more Object) Object {
	return merge(Object{
		"name": name, "image": node.Image, "command": append([]string{"/cluster", "witness"}, args...), "securityContext": Strictest(),
	}, more)
}

// Lameduck is lameduck's container.
func Lameduck(grace int, args []string, more Object) Object {
	return merge(Object{
		"name": "lameduck", "image": part.LameduckImage, "securityContext": Strictest(),
		"args": append([]string{"--grace-period=" + strconv.Itoa(grace) + "s"}, args...),
		"env":  []Object{{"name": "NODE_IP", "valueFrom": Object{"fieldRef": Object{"fieldPath": "status.hostIPs"}}}},
	}, more)
}

// Sidecar makes a native sidecar of a container, with `lameduck drain` as its hook if it is lameduck's.
func Sidecar(container Object) Object {
	more := Object{"restartPolicy": "Always"}
	if container["name"] == "lameduck" {
		more["lifecycle"] = Object{"preStop": Object{"exec": Object{"command": []string{"/lameduck", "drain"}}}}
	}
	return merge(container, more)
}

// HookGet is a preStop hook that asks the pod over HTTP.
func HookGet(port int, path string) Object {
	return Object{"lifecycle": Object{"preStop": Object{"httpGet": Object{"port": port, "path": path}}}}
}

func merge(into, more Object) Object {
	merged := Object{}
	for _, from := range []Object{into, more} {
		for key, value := range from {
			merged[key] = value
		}
	}
	return merged
}

// PodSpec is a pod's specification.
func PodSpec(grace int, sidecars, containers []Object, more Object) Object {
	return merge(Object{
		"terminationGracePeriodSeconds": grace, "automountServiceAccountToken": false,
		"securityContext": Object{
			"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": Object{"type": "RuntimeDefault"},
		},
		"initContainers": sidecars, "containers": containers,
	}, more)
}

// StartPod creates a pod and returns when it is ready, with its logs.
func (c *Cluster) StartPod(ctx context.Context, name string, spec Object) (*Logs, error) {
	text, err := json.Marshal(Object{"apiVersion": "v1", "kind": "Pod", "metadata": Object{"name": name, "namespace": Namespace}, "spec": spec})
	if err != nil {
		return nil, err
	}
	if err := c.Apply(ctx, string(text)); err != nil {
		return nil, err
	}
	if _, err := c.Kubectl(ctx, "wait", "-n", Namespace, "--for=condition=Ready", "--timeout=60s", "pod/"+name); err != nil {
		return nil, err
	}
	return c.FollowLogs(ctx, name)
}

// Get asks a URL from the node, and returns the status of the answer, "refused" or "timeout".
func (c *Cluster) Get(ctx context.Context, url string) string {
	out, err := c.Run(ctx, "", c.Parts.Cluster, "get", url)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out)
}
