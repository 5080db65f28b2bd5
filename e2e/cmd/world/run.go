package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"lameduck/e2e/world"
)

// runSpec reads a world.Spec, runs it, and writes the world.Result. The tools are built, or given as JSON by -tools
// where building is not possible.
func runSpec(args []string, in io.Reader, out io.Writer) error {
	var spec world.Spec
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	ready := flags.String("tools", "", "a world.Tools as JSON")
	_ = flags.Parse(args)
	if err := json.NewDecoder(in).Decode(&spec); err != nil {
		return fmt.Errorf("read spec: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	tools, err := toolsFrom(ctx, *ready)
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

func toolsFrom(ctx context.Context, ready string) (world.Tools, error) {
	if ready == "" {
		return world.Prepare(ctx, os.Stderr)
	}
	var tools world.Tools
	if err := json.Unmarshal([]byte(ready), &tools); err != nil {
		return tools, fmt.Errorf("-tools: %w", err)
	}
	return tools, nil
}
