package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"lameduck/e2e/world"
)

// runSpec reads a world.Spec, runs it, and writes the world.Result.
func runSpec(in io.Reader, out io.Writer) error {
	var spec world.Spec
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return fmt.Errorf("read spec: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	tools, err := world.Prepare(ctx, os.Stderr)
	if err != nil {
		return err
	}
	result, err := tools.Run(ctx, spec, os.Stderr)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", " ")
	return encoder.Encode(result)
}
