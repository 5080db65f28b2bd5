package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"lameduck/drain/admin"
)

// blindHold is how long a hold lasts where no sidecar can tell: the sleep that people use without lameduck.
const blindHold = 25 * time.Second

// runHold waits as /hold does. It serves as an exec hook, after which the container gets SIGTERM whatever the exit
// status was. So where the sidecar does not answer it waits all the same, and only then reports the failure.
func runHold(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if done, code := noFlags("hold", args, stdout, stderr); done {
		return code
	}
	return hold(ctx, admin.Hold, stderr)
}

func hold(ctx context.Context, sidecar func(context.Context) error, stderr io.Writer) int {
	until := time.NewTimer(blindHold)
	defer until.Stop()
	err := sidecar(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "lameduck: %v; instead, waiting until %v after the call have passed\n", err, blindHold)
	select {
	case <-until.C:
	case <-ctx.Done():
	}
	return exitFailed
}
