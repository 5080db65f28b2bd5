package node

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lameduck/e2e/world"
	"lameduck/e2e/world/box"
	"lameduck/e2e/world/load"
)

// The names of the containers.
const (
	appName     = "app"
	sidecarName = "lameduck"
)

// adminPort is lameduck's.
const adminPort = 8420

// pod is a namespace with its containers.
type pod struct {
	name       string
	index      int
	dir        string
	at         address
	ns         *namespace
	containers []*container
	random     *rand.Rand
	timeline
	deleting bool
	// gone is closed once its address has gone.
	gone chan struct{}
	// resets is the namespace's count of sent RSTs at the deletion.
	resets uint64
}

// newPod describes pod i of the spec; nothing runs yet.
func (n *node) newPod(i int) (*pod, error) {
	p := &pod{
		name: fmt.Sprintf("pod-%d", i), index: i, at: podAddress(i), gone: make(chan struct{}),
		random: rand.New(rand.NewPCG(n.spec.Seed, uint64(i))),
	}
	p.dir = filepath.Join(n.dir, p.name)
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return nil, err
	}
	if n.spec.Sidecar.Kind != world.NoSidecar {
		sidecar, err := n.sidecarContainer(p)
		if err != nil {
			return nil, err
		}
		p.containers = append(p.containers, sidecar)
	}
	p.containers = append(p.containers, n.appContainer(p))
	return p, nil
}

// appArgs are the arguments of every application of the run, whatever it does in its end.
func (n *node) appArgs(name string) []string {
	args := []string{
		"app", "-name", name, "-protocol", string(n.spec.Protocol), "-greets=" + strconv.FormatBool(n.spec.App.Greets),
	}
	if n.spec.TLS {
		args = append(args, "-cert", n.certificate.cert, "-key", n.certificate.key)
	}
	return args
}

func (n *node) appContainer(p *pod) *container {
	a := n.spec.App
	c := &container{name: appName, log: filepath.Join(p.dir, "app.log"), args: append(n.appArgs(p.name),
		"-listen", a.Listen+":"+strconv.Itoa(world.AppPort), "-served", p.servedFile(), "-checks", p.checksFile(),
		"-on-term", string(a.OnTerm), "-serve-for", a.ServeFor.String(),
		"-per-request="+strconv.FormatBool(a.PerRequest), "-leave-child="+strconv.FormatBool(a.LeaveChild),
	)}
	if a.LeaveChild {
		c.args = append([]string{"shell"}, c.args...)
	}
	switch {
	case n.spec.PreStopSleep > 0:
		c.preStop = &hook{wait: n.spec.PreStopSleep}
	case n.spec.Sidecar.Hold:
		c.preStop = &hook{http: "http://" + net.JoinHostPort(n.podIP(p).String(), strconv.Itoa(adminPort)) + "/hold"}
	}
	return c
}

func (n *node) sidecarContainer(p *pod) (*container, error) {
	s := n.spec.Sidecar
	hosts := "127.0.0.1 localhost\n::1 localhost\n"
	for i := range n.spec.Pods {
		hosts += podAddress(i).family(n.spec.IPv6).String() + " backends\n"
	}
	walls, err := boxFor(p.dir, n.lameduck, hosts)
	if err != nil {
		return nil, err
	}
	walls.Files, walls.NoSockDiag = box.Limit(s.Files), s.NoSockDiag
	walls.Cert, walls.Key = n.certificate.cert, n.certificate.key
	c := &container{
		name: sidecarName, box: walls, log: filepath.Join(p.dir, "lameduck.log"),
		args: append([]string{"run", "--grace-period", n.spec.Grace.String()}, s.Args...),
		env:  []string{"NODE_IP=" + gateway4.String() + "," + gateway6.String()},
	}
	if s.RelayToService {
		c.args = append(c.args, "--relay-to", service.String())
	}
	if s.Relay {
		c.args = append(c.args, "--relay-to", net.JoinHostPort("backends", strconv.Itoa(world.AppPort)))
	}
	if s.Kind == world.Native {
		c.native = true
		c.preStop = &hook{exec: []string{"drain"}}
		c.execDelay = s.HookDelay
		if c.execDelay == 0 {
			c.execDelay = between(p.random, 40*time.Millisecond, 400*time.Millisecond)
		}
	}
	return c, nil
}

// start runs the pod: native sidecars first, each until it has started up, then the rest.
func (n *node) start(p *pod) error {
	ns, err := n.net.attach(p.name, p.at)
	if err != nil {
		return err
	}
	p.ns = ns
	for _, c := range p.containers {
		if err := c.start(ns); err != nil {
			return err
		}
		if c.name == sidecarName {
			if err := n.waitListening(c, p, adminPort); err != nil {
				return err
			}
			if err := checkWalls(c.current()); err != nil {
				return err
			}
		}
	}
	return n.waitListening(p.container(appName), p, world.AppPort)
}

func (p *pod) container(name string) *container {
	for _, c := range p.containers {
		if c.name == name {
			return c
		}
	}
	return nil
}

// podIP is the address by which the run knows the pod.
func (n *node) podIP(p *pod) netip.Addr { return p.at.family(n.spec.IPv6) }

// waitListening waits until a pod accepts connections on a port, as a startup probe does.
func (n *node) waitListening(c *container, p *pod, port uint16) error {
	to := netip.AddrPortFrom(n.podIP(p), port).String()
	ended := c.current().exited
	err := poll(10*time.Second, func() error {
		select {
		case <-ended:
			return errEnded
		default:
		}
		conn, err := net.DialTimeout("tcp", to, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("container %s of %s: %w; its log:\n%s", c.name, p.name, err, tail(c.log))
	}
	return nil
}

func (p *pod) servedFile() string { return filepath.Join(p.dir, "served") }

// served returns the ids of the requests that reached the application, in order.
func (p *pod) served() []string {
	content, _ := os.ReadFile(p.servedFile())
	return slices.DeleteFunc(strings.Fields(string(content)), func(id string) bool { return id == load.Name(0) })
}

func (p *pod) checksFile() string { return filepath.Join(p.dir, "checks") }

// checks is how many health checks the application answered.
func (p *pod) checks() int {
	content, _ := os.ReadFile(p.checksFile())
	return bytes.Count(content, []byte("\n"))
}

// between is a random duration in [low, high).
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}
