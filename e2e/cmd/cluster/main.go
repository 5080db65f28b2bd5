// Command cluster is the end-to-end cluster in the hands of a person (up, down), and what the cluster itself needs: its
// node (PID 1 of its namespaces), the process that holds each pod's namespaces, witnesses of what the kubelet does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"lameduck/e2e/cluster"
	"lameduck/e2e/cluster/node"
	"lameduck/e2e/cluster/witness"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: cluster up | down")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, role string, args []string) error {
	switch role {
	case "up":
		return up(ctx, args)
	case "down":
		return cluster.DownKept(ctx)
	case "node":
		// PID 1 decides itself what its signals mean.
		signal.Reset()
		return node.Main(args, os.Stdin, os.Stdout)
	case "pause":
		<-ctx.Done()
		return nil
	case "witness":
		return witness.Main(args, os.Stdout)
	case "get":
		if len(args) != 1 {
			return errors.New("get: which URL?")
		}
		_, err := fmt.Println(witness.Get(ctx, args[0]))
		return err
	}
	return fmt.Errorf("unknown role %q", role)
}

func up(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("up", flag.ExitOnError)
	gateway := flags.String("gateway", "", "version of Envoy Gateway: 1.2; a recent one if empty")
	_ = flags.Parse(args)
	return cluster.Keep(ctx, *gateway, os.Stderr)
}
