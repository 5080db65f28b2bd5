package takeover

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

var appListener = Listener{Addr: at(podIP, appPort)}

// toPeer relays every port to the peer's port 9090.
var toPeer = []Target{{Host: at(peerIP, 9090).String()}}

// answersLine serves one line to each client, and names itself in it.
func answersLine(name string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if b := make([]byte, 1); firstRead(c, b) {
			_, _ = io.WriteString(c, name+"\n")
		}
	}
}

func firstRead(c *net.TCPConn, b []byte) bool {
	_, err := io.ReadFull(c, b)
	return err == nil
}

// ask sends a byte that begins no HTTP request and returns what the server says.
func ask(to netip.AddrPort) (string, error) {
	c, err := tryDial(clientIP, to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte{0}); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c)
	return strings.TrimSpace(string(b)), err
}

// C1, the relay's part: while the application listens it has every connection; after the takeover the peer has, and
// what comes between is refused by the kernel and never hangs.
func TestNoConnectionIsLostAfterThePortIsTaken(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), answersLine("peer"))
		app := serveAt(t, appListener.Addr, answersLine("app"))
		w := run(t, Options{Targets: toPeer}, nil)
		w.taker.Arm(appListener)
		until(t, "the peer answers", func() bool { return w.taker.Stats().PeersAnswer == 1 })
		for range 50 {
			if got, err := ask(appListener.Addr); got != "app" {
				t.Fatalf("while the application listens: %q, %v", got, err)
			}
		}
		w.quiet()
		app.end()
		w.taker.Kick()
		w.await(Taken)
		for range 200 {
			if got, err := ask(appListener.Addr); got != "peer" {
				t.Fatalf("after the takeover: %q, %v", got, err)
			}
		}
		if s := w.taker.Stats(); s.Relayed != 200 || s.Failed != 0 || s.Looped != 0 {
			t.Errorf("%+v", s)
		}
		if w.log.count("port taken") != 1 {
			t.Errorf("log:\n%s", w.log)
		}
	})
}

func TestPortIsTakenWithoutAKick(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		app := bindTo(t, appListener.Addr)
		w := run(t, Options{Targets: toPeer}, nil)
		w.taker.Arm(appListener)
		app.Close()
		w.await(Taken)
	})
}

// counted counts the calls that a takeover makes of the system.
func counted(n *atomic.Int64) func(*system) {
	return func(sys *system) {
		socket, bind, own, look := sys.socket, sys.bind, sys.own, sys.lookup
		sys.socket = func(l Listener) (int, error) { n.Add(1); return socket(l) }
		sys.bind = func(fd int, sa unix.Sockaddr) error { n.Add(1); return bind(fd, sa) }
		sys.own = func() ([]netip.Addr, error) { n.Add(1); return own() }
		sys.lookup = look
	}
}

func TestServingNeverKeepsAppFromBinding(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		var calls atomic.Int64
		w := run(t, Options{Targets: toPeer}, counted(&calls))
		for range 100 {
			w.taker.Kick()
			// As the most delicate application binds: without SO_REUSEADDR.
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			err = errors.Join(unix.Bind(fd, sockaddr(appListener.Addr)), unix.Listen(fd, 1), unix.Close(fd))
			if err != nil {
				t.Fatal(err)
			}
		}
		if calls.Load() != 0 || w.taker.Stats().PeersAnswer != 0 {
			t.Errorf("%d calls before the first Arm", calls.Load())
		}
	})
}

func TestListeningAppIsNeverDisplaced(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		// The application that is easiest to displace shares its port by both options.
		for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(unix.Bind(fd, sockaddr(appListener.Addr)), unix.Listen(fd, 1)); err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int64
		w := run(t, Options{Targets: toPeer}, counted(&calls))
		for _, l := range []Listener{appListener, {Addr: at(netip.IPv4Unspecified(), appPort)}, {Addr: at(netip.IPv6Unspecified(), appPort)}} {
			w.taker.Arm(l)
		}
		until(t, "100 attempts", func() bool { return calls.Load() > 100 })
		w.quiet()
	})
}

func TestAppThatIsBoundAndListensLaterGetsItsPort(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		// Between its bind and its listen an application with SO_REUSEADDR lets us bind too; whoever listens first has it.
		var app int
		w := run(t, Options{Targets: toPeer}, func(sys *system) {
			listen := sys.listen
			sys.listen = func(fd, backlog int) error {
				if app == 0 {
					var err error
					if app, err = openSocket(appListener); err != nil {
						return err
					}
					if err := errors.Join(unix.Bind(app, sockaddr(appListener.Addr)), unix.Listen(app, 1)); err != nil {
						return err
					}
				}
				return listen(fd, backlog)
			}
		})
		w.taker.Arm(appListener)
		until(t, "the application listens", func() bool { w.taker.mu.Lock(); defer w.taker.mu.Unlock(); return app != 0 })
		w.quiet()
		w.taker.mu.Lock()
		unix.Close(app)
		w.taker.mu.Unlock()
		w.await(Taken)
	})
}

// An application that did not set SO_REUSEADDR leaves connections that keep the port.
func TestPortThatLingeringConnectionsKeepIsReportedAndTriedOn(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		app, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(unix.Bind(app, sockaddr(appListener.Addr)), unix.Listen(app, 1)); err != nil {
			t.Fatal(err)
		}
		client := dialFrom(t, clientIP, appListener.Addr)
		server, _, err := unix.Accept(app)
		if err != nil {
			t.Fatal(err)
		}
		w := run(t, Options{Targets: toPeer}, nil)
		w.taker.Arm(appListener)
		until(t, "the peer answers", func() bool { return w.taker.Stats().PeersAnswer == 1 })
		unix.Close(app)
		w.taker.Kick()
		w.log.await(t, "did not set SO_REUSEADDR")
		w.quiet()
		if !refused(appListener.Addr) {
			t.Error("not refused")
		}
		reset(client)
		unix.Close(server)
		w.await(Taken)
		if w.log.count("SO_REUSEADDR") != 1 {
			t.Errorf("log:\n%s", w.log)
		}
	})
}

func TestDeathOfAnotherListenerIsNoReasonToReport(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		bindTo(t, appListener.Addr)
		asked := make(chan uint16, 10)
		w := run(t, Options{Targets: toPeer}, func(sys *system) {
			listeners := sys.listeners
			sys.listeners = func(port uint16) ([]netip.AddrPort, error) {
				defer func() { asked <- port }()
				return listeners(port)
			}
		})
		w.taker.Arm(appListener)
		w.taker.Kick()
		receive(t, asked)
		if w.log.count("SO_REUSEADDR") != 0 {
			t.Errorf("log:\n%s", w.log)
		}
	})
}

func TestUntargetedPortIsNeverTaken(t *testing.T) {
	inPod(t, func(t *testing.T) {
		var calls atomic.Int64
		w := run(t, Options{Targets: []Target{{Port: 9999, Host: toPeer[0].Host}}}, counted(&calls))
		w.taker.Arm(appListener)
		w.taker.Kick()
		if !refused(appListener.Addr) || calls.Load() != 0 {
			t.Errorf("%d calls for a port without a target", calls.Load())
		}
	})
}

func TestArmTwiceIsArmOnce(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		w := run(t, Options{Targets: toPeer}, nil)
		w.take(appListener)
		w.taker.Arm(appListener)
		w.take(Listener{Addr: at(podIP, appPort+1)}) // the next event is of this one
	})
}

func TestKickNeverBlocks(t *testing.T) {
	taker := New(Options{Targets: toPeer})
	taker.Kick()
	taker.mu.Lock() // as while the loop is at work
	kicked := make(chan struct{})
	go func() {
		for range 10 {
			taker.Kick()
		}
		close(kicked)
	}()
	receive(t, kicked)
	taker.mu.Unlock()
}
