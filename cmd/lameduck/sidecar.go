package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

// runSidecar runs the drain until its end and returns the exit status.
func runSidecar(_ context.Context, _ options, _ <-chan os.Signal, _, stderr io.Writer) int {
	fmt.Fprintln(stderr, "lameduck: the sidecar is not wired up yet")
	return exitFailed
}
