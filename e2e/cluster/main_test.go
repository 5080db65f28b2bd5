package cluster_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"lameduck/e2e/cluster"
)

var (
	wanted  = flag.Bool("cluster", false, "bring a cluster up, or use the one that is kept, and run the tests on it")
	gateway = flag.String("gateway", "", "version of Envoy Gateway: 1.2; a recent one if empty")
)

// here is the cluster that all tests share, rows what their trials brought.
var (
	here *cluster.Cluster
	rows struct {
		sync.Mutex
		all []cluster.Row
	}
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !*wanted {
		fmt.Println("a cluster takes minutes: skipped without -cluster (make e2e)")
		return
	}
	os.Exit(withCluster(m.Run))
}

// withCluster runs the tests while a cluster is up. An interrupt ends both.
func withCluster(run func() int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	var kept bool
	var err error
	if here, kept, err = cluster.Get(ctx, *gateway, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ended := make(chan int, 1)
	go func() { ended <- run() }()
	status := 1
	select {
	case status = <-ended:
	case <-ctx.Done():
	}
	if len(rows.all) > 0 {
		fmt.Fprintf(os.Stderr, "\nEnvoy Gateway %s; each backend has three pods\n", here.Parts.GatewayName())
		if err := cluster.Table(os.Stderr, rows.all); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if err := here.Failed(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if kept {
		return status
	}
	if err := here.Down(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// background is for what is cleaned up when a test's own context has ended.
func background() context.Context { return context.Background() }
