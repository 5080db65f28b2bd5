package main

import (
	"context"
	"fmt"
	"io"

	"lameduck/drain/admin"
)

// runDrain starts the drain of the sidecar in this pod and returns at once: the sidecar's own preStop hook.
// Where it fails the kubelet goes on to SIGTERM, which is a trigger too.
func runDrain(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if done, code := noFlags("drain", args, stdout, stderr); done {
		return code
	}
	if err := admin.Drain(ctx); err != nil {
		fmt.Fprintf(stderr, "lameduck: %v\n", err)
		return exitFailed
	}
	return exitOK
}
