package takeover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"lameduck/netns/netnstest"
)

// watchdog bounds each wait of a test; none is expected to come near it. The longest is for a peer that answers again: 10 s.
const watchdog = 30 * time.Second

// The addresses of the tests' pods. Peers and clients live at addresses that are routed to loopback and are no
// interface's: they are foreign to the takeover, and an unprivileged process may use them.
var (
	podIP    = netip.MustParseAddr("10.9.0.1")
	podIPv6  = netip.MustParseAddr("fd09::1")
	peerIP   = netip.MustParseAddr("10.9.0.2")
	otherIP  = netip.MustParseAddr("10.9.0.3")
	peerIPv6 = netip.MustParseAddr("fd09::2")
	clientIP = netip.MustParseAddr("10.9.9.9")
)

const appPort = 8080

// inPod runs a test as lameduck runs: as uid 65532 without a capability, in a pod's network namespace of its own.
// sysctls are name=value of /proc/sys/net.
func inPod(t *testing.T, body func(t *testing.T), sysctls ...string) {
	t.Helper()
	prepare := func(n *netnstest.Namespace) {
		n.Do(t, func() {
			if err := layPod(sysctls); err != nil {
				t.Fatal(err)
			}
		})
	}
	netnstest.RunUnprivileged(t, prepare, func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		t.Run("", body)
	})
}

// layPod gives the calling thread's namespace the pod's addresses, and routes the others' to loopback.
func layPod(sysctls []string) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	for _, a := range []netip.Addr{podIP, podIPv6} {
		addr := &netlink.Addr{IPNet: netlink.NewIPNet(a.AsSlice()), Flags: unix.IFA_F_NODAD}
		if err := netlink.AddrAdd(lo, addr); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	for _, cidr := range []string{"10.9.0.0/16", "fd09::/64"} {
		_, dst, err := net.ParseCIDR(cidr)
		if err != nil {
			return err
		}
		route := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: dst, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("route %s: %w", cidr, err)
		}
	}
	// IPv6, unlike IPv4, does not let a routed address be bound without it.
	for _, s := range append(sysctls, "ipv6/ip_nonlocal_bind=1") {
		name, value, _ := strings.Cut(s, "=")
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}

// world is a takeover that runs, and what it has said.
type world struct {
	t      *testing.T
	taker  *Takeover
	events chan Event // but for resets
	resets chan Event
	log    *lines
}

// run starts a takeover that relays to the targets, and ends it with the test.
func run(t *testing.T, opts Options, change func(*system)) *world {
	t.Helper()
	w := &world{t: t, events: make(chan Event, 1024), resets: make(chan Event, 1024), log: &lines{changed: make(chan struct{}, 1)}}
	opts.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	opts.Notify = func(e Event) {
		if e.Kind == Reset {
			w.resets <- e
			return
		}
		w.events <- e
	}
	sys := kernel()
	if change != nil {
		change(&sys)
	}
	w.taker = build(opts, sys)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.taker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(watchdog):
			t.Error("Run does not end")
		}
		if t.Failed() {
			t.Log(w.log)
		}
	})
	return w
}

// quiet fails the test if an event has come.
func (w *world) quiet() {
	w.t.Helper()
	select {
	case e := <-w.events:
		w.t.Fatalf("unexpected event %+v", e)
	default:
	}
}

// take arms the listener and waits until it is taken.
func (w *world) take(l Listener) {
	w.t.Helper()
	w.taker.Arm(l)
	w.await(Taken)
}

// owns tells whether the takeover accepted a connection.
func (w *world) owns(local, remote netip.AddrPort) bool {
	ours, _ := w.taker.Owns(local, remote)
	return ours
}

// at is an address with a port.
func at(ip netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(ip, port) }

// bindTo listens as an application does: with SO_REUSEADDR, which Go sets.
func bindTo(t testing.TB, addr netip.AddrPort) *net.TCPListener {
	t.Helper()
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// peerServer listens and hands each connection to serve, in a goroutine of its own, until close or the test's end.
type peerServer struct {
	*net.TCPListener
	work  sync.WaitGroup
	mu    sync.Mutex
	conns []*net.TCPConn
}

func serveAt(t testing.TB, addr netip.AddrPort, serve func(*net.TCPConn)) *peerServer {
	t.Helper()
	s := &peerServer{TCPListener: bindTo(t, addr)}
	s.work.Go(func() {
		for {
			c, err := s.AcceptTCP()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.work.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(s.end)
	return s
}

// end closes the listener and every connection, as a process's death does.
func (s *peerServer) end() {
	s.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// echo sends back what it receives, and then its end.
func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

// dialFrom connects as a client whose address is foreign to the pod.
func dialFrom(t testing.TB, from netip.Addr, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := tryDial(from, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func tryDial(from netip.Addr, to netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: watchdog}
	c, err := d.DialTCP(context.Background(), "tcp", netip.AddrPortFrom(from, 0), to)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(watchdog))
}

// refused tells whether the kernel refuses connections to the address.
func refused(to netip.AddrPort) bool {
	c, err := tryDial(clientIP, to)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
