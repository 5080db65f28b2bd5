// Package node is the inside of a world: PID 1 of its namespaces, the router, the kubelet and the control plane.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/e2e/world"
	"lameduck/e2e/world/app"
	"lameduck/e2e/world/proxy"
)

// node is one run.
type node struct {
	spec            world.Spec
	envoy, lameduck string
	dir             string
	progress        io.Writer

	net     network
	kubelet *kubelet
	pods    []*pod
	control *controlPlane
	proxies []proxy.Config
	logs    map[string]string // Envoy's logs by its name

	certificate certificate
	clientPlace *namespace

	mu      sync.Mutex
	held    []io.Closer                              // open as long as this process lives
	records []func(start time.Time, r *world.Result) // what events have to add to the result
	failed  error                                    // the first error of an event
	events  sync.WaitGroup
}

// Main reads a world.Order, runs it, and writes a world.Reply. Whoever gave the order holds the input open: its end is
// the order to end, and the end of this process, PID 1 of its namespace, is the end of the world.
func Main(in io.Reader, out io.Writer) error {
	if os.Getpid() != 1 {
		return errors.New("node: runs only as PID 1 of a namespace of its own")
	}
	decoder := json.NewDecoder(in)
	var order world.Order
	if err := decoder.Decode(&order); err != nil {
		return fmt.Errorf("node: read order: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1)
	}()
	result, err := run(order)
	reply := world.Reply{Result: result}
	if err != nil {
		reply.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(reply)
}

func run(order world.Order) (world.Result, error) {
	n := &node{
		spec: order.Spec, envoy: order.Envoy, lameduck: order.Lameduck, dir: order.Dir,
		progress: os.Stderr, kubelet: newKubelet(order.Spec.Grace), logs: make(map[string]string),
	}
	if err := n.privateFiles(); err != nil {
		return world.Result{}, err
	}
	var err error
	if n.net, err = newNetwork(); err != nil {
		return world.Result{}, err
	}
	if err := n.net.translate(n.spec); err != nil {
		return world.Result{}, err
	}
	if n.certificate, err = n.newCertificate(); err != nil {
		return world.Result{}, err
	}
	if err := n.startPods(); err != nil {
		return world.Result{}, err
	}
	if err := n.startEnvoys(); err != nil {
		return world.Result{}, err
	}
	if err := n.startForeign(); err != nil {
		return world.Result{}, err
	}
	return n.play()
}

// privateFiles makes the run's folder a file system that ends with this process's mount namespace.
func (n *node) privateFiles() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", n.dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount run folder: %w", err)
	}
	// Process ids are looked up in /proc: it must show this PID namespace.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc (is it masked, as in a container?): %w", err)
	}
	return nil
}

func (n *node) startPods() error {
	for i := range n.spec.Pods {
		p, err := n.newPod(i)
		if err != nil {
			return err
		}
		n.pods = append(n.pods, p)
	}
	return forEach(n.pods, n.start)
}

// play sends the load, lets the events happen, and tells how it went once the load and every deleted pod have ended.
func (n *node) play() (world.Result, error) {
	client, err := n.startLoad()
	if err != nil {
		return world.Result{}, err
	}
	start, err := client.started()
	if err != nil {
		return world.Result{}, err
	}
	if n.spec.Probes {
		for _, p := range n.pods {
			n.probe(p)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.watchViews(ctx)
	for _, e := range n.spec.Events {
		n.events.Go(func() {
			<-time.After(time.Until(start.Add(e.At)))
			if err := n.happen(e); err != nil {
				n.fail(err)
			}
		})
	}
	outcome, err := client.outcome()
	if err != nil {
		return world.Result{}, err
	}
	n.events.Wait()
	if n.failed != nil {
		return world.Result{}, n.failed
	}
	return n.result(outcome)
}

// record adds something to the result, once the load's start is known.
func (n *node) record(add func(start time.Time, r *world.Result)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.records = append(n.records, add)
}

func (n *node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failed == nil {
		n.failed = err
	}
}

// forEach runs f for all at once and returns the first error in order.
func forEach[T any](all []T, f func(T) error) error {
	failed := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { failed[i] = f(one) })
	}
	wg.Wait()
	return errors.Join(failed...)
}

// reuse gives a dead pod's address to a pod of another service, which listens on the same port.
func (n *node) reuse(p *pod) error {
	ns, err := n.net.attach(p.name+"-b", p.at)
	if err != nil {
		return err
	}
	listen := net.JoinHostPort(n.wildcard(), fmt.Sprint(world.AppPort))
	stranger := &container{
		name: app.Stranger, log: p.dir + "/stranger.log", args: append(n.appArgs(app.Stranger), "-listen", listen),
	}
	return stranger.start(ns)
}

func (n *node) wildcard() string {
	if n.spec.IPv6 {
		return "::"
	}
	return "0.0.0.0"
}
