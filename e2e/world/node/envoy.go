package node

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"lameduck/e2e/world"
	"lameduck/e2e/world/proxy"
)

// endpointState is what the control plane says of a pod.
type endpointState int

const (
	listed endpointState = iota
	unknown
	draining
	removed
)

// controlPlane tells all Envoys of the endpoints.
type controlPlane struct {
	mu      sync.Mutex
	version int
	states  []endpointState
	// write gives a version of the list to every Envoy.
	write func(version int, states []endpointState) error
}

// set changes what is said of a pod; the list that brings it brings whatever else is new.
func (c *controlPlane) set(pod int, state endpointState) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states[pod] = state
	for i, s := range c.states {
		if s == unknown {
			c.states[i] = listed
		}
	}
	return c.publish()
}

func (c *controlPlane) publish() error {
	c.version++
	return c.write(c.version, c.states)
}

// startEnvoys starts every Envoy in a namespace of its own, and waits until each has its endpoints.
func (n *node) startEnvoys() error {
	for i := range n.spec.Envoy.Count {
		config := proxy.Config{
			Address: envoyAddress(i).family(n.spec.IPv6), Policy: n.spec.Envoy.Policy, Rules: n.spec.Envoy.Rules,
			Protocol: n.spec.Protocol, CA: n.certificate.cert, Dir: filepath.Join(n.dir, fmt.Sprintf("envoy-%d", i)),
		}
		if err := os.MkdirAll(config.EndpointsDir(), 0o755); err != nil {
			return err
		}
		n.proxies = append(n.proxies, config)
	}
	states := make([]endpointState, n.spec.Pods)
	for i := n.spec.Pods - n.spec.Envoy.Fresh; i < n.spec.Pods; i++ {
		states[i] = unknown
	}
	n.control = &controlPlane{states: states, write: n.writeEndpoints}
	if err := n.control.publish(); err != nil {
		return err
	}
	indexes := make([]int, len(n.proxies))
	for i := range indexes {
		indexes[i] = i
	}
	return forEach(indexes, n.startEnvoy)
}

func (n *node) writeEndpoints(version int, states []endpointState) error {
	var endpoints []proxy.Endpoint
	for i, s := range states {
		if s == listed || s == draining {
			endpoints = append(endpoints, proxy.Endpoint{
				Address: n.podIP(n.pods[i]), Port: world.AppPort, Draining: s == draining,
			})
		}
	}
	for _, p := range n.proxies {
		if err := p.WriteEndpoints(version, endpoints); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) startEnvoy(i int) error {
	config := n.proxies[i]
	bootstrap, err := config.Bootstrap()
	if err != nil {
		return err
	}
	file := filepath.Join(config.Dir, "bootstrap.json")
	if err := os.WriteFile(file, bootstrap, 0o644); err != nil {
		return err
	}
	ns, err := n.net.attach(fmt.Sprintf("envoy-%d", i), envoyAddress(i))
	if err != nil {
		return err
	}
	logFile := filepath.Join(config.Dir, "envoy.log")
	log, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(n.envoy, "-c", file, "--concurrency", "2", "--disable-hot-restart",
		"--log-level", "warning", "--file-flush-interval-msec", "200")
	cmd.Stdout, cmd.Stderr = log, log
	if err := ns.do(cmd.Start); err != nil {
		return fmt.Errorf("start Envoy: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	if err := waitReady(config.Admin(), ended); err != nil {
		return fmt.Errorf("start Envoy: %w; its log:\n%s", err, tail(logFile))
	}
	return nil
}

// waitReady waits until an Envoy has initialized its clusters, which is when it has read the endpoints.
func waitReady(admin string, ended <-chan struct{}) error {
	client := adminClient(admin)
	return poll(30*time.Second, func() error {
		select {
		case <-ended:
			return errEnded
		default:
		}
		resp, err := client.Get("http://admin/ready")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s", resp.Status)
		}
		return nil
	})
}
