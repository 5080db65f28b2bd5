package takeover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// failing returns errno for the first n calls.
func failing(n int64, errno unix.Errno) func() error {
	var calls atomic.Int64
	return func() error {
		if calls.Add(1) <= n {
			return errno
		}
		return nil
	}
}

// Whatever fails on the way to a port is tried again, and said once.
func TestTakeoverIsTriedUntilItSucceeds(t *testing.T) {
	for name, c := range map[string]struct {
		errno  unix.Errno
		change func(sys *system, fail func() error)
		lines  int
	}{
		"the-app-listens-yet": {unix.EADDRINUSE, func(sys *system, fail func() error) {
			bind := sys.bind
			sys.bind = func(fd int, sa unix.Sockaddr) error {
				if err := fail(); err != nil {
					return err
				}
				return bind(fd, sa)
			}
		}, 0},
		"the-app-listens-first": {unix.EADDRINUSE, func(sys *system, fail func() error) {
			listen := sys.listen
			sys.listen = func(fd, backlog int) error {
				if err := fail(); err != nil {
					return err
				}
				return listen(fd, backlog)
			}
		}, 0},
		"no-more-sockets": {unix.EMFILE, func(sys *system, fail func() error) {
			socket := sys.socket
			sys.socket = func(l Listener) (int, error) {
				if err := fail(); err != nil {
					return -1, os.NewSyscallError("socket", err)
				}
				return socket(l)
			}
		}, 1},
		"no-more-files": {unix.EMFILE, func(sys *system, fail func() error) {
			adopt := sys.adopt
			sys.adopt = func(fd int) (*net.TCPListener, error) {
				if err := fail(); err != nil {
					unix.Close(fd)
					return nil, err
				}
				return adopt(fd)
			}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(t *testing.T) {
				serveAt(t, at(peerIP, 9090), answersLine("peer"))
				before := openFiles(t)["socket"]
				w := run(t, Options{Targets: toPeer}, func(sys *system) { c.change(sys, failing(10, c.errno)) })
				w.take(appListener)
				if got, err := ask(appListener.Addr); got != "peer" {
					t.Errorf("%q, %v", got, err)
				}
				if n := w.log.count("cannot be taken yet"); n != c.lines {
					t.Errorf("said %d times:\n%s", n, w.log)
				}
				until(t, "all that failed is closed", func() bool { return openFiles(t)["socket"] == before+1 })
			})
		})
	}
}

func TestListenThatFailsLeavesThePortUnbound(t *testing.T) {
	inPod(t, func(t *testing.T) {
		p := newPort(appListener)
		sys := kernel()
		sys.listen = func(int, int) error { return unix.EADDRINUSE }
		if err := p.try(&sys); !errors.Is(err, unix.EADDRINUSE) {
			t.Fatal(err)
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, p.address); err != nil {
			t.Errorf("an application without SO_REUSEADDR cannot bind: %v", err)
		}
	})
}

// C24: what accept lacks comes back; until then connections wait in the backlog.
func TestFailingAcceptIsNoEnd(t *testing.T) {
	for name, errno := range map[string]unix.Errno{"EMFILE": unix.EMFILE, "ENFILE": unix.ENFILE, "ECONNABORTED": unix.ECONNABORTED} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(t *testing.T) {
				serveAt(t, at(peerIP, 9090), answersLine("peer"))
				fail := failing(5, errno)
				w := run(t, Options{Targets: toPeer}, func(sys *system) {
					accept := sys.accept
					sys.accept = func(ln *net.TCPListener) (*net.TCPConn, error) {
						if err := fail(); err != nil {
							return nil, err
						}
						return accept(ln)
					}
				})
				w.take(appListener)
				if got, err := ask(appListener.Addr); got != "peer" {
					t.Errorf("%q, %v", got, err)
				}
				if n := w.log.count("cannot be accepted yet"); n != 1 {
					t.Errorf("said %d times:\n%s", n, w.log)
				}
			})
		})
	}
}

func TestPeerIsNotBlamedForOurOwnWant(t *testing.T) {
	for name, c := range map[string]struct {
		errno  unix.Errno
		failed uint64
	}{
		"no-more-ports": {unix.EADDRNOTAVAIL, 1}, // for connections to this peer: another may have some
		"no-more-files": {unix.EMFILE, 0},        // waited for
	} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(t *testing.T) {
				serveAt(t, at(peerIP, 9090), answersLine("peer"))
				fail := failing(1, c.errno)
				w := run(t, Options{Targets: toPeer}, func(sys *system) {
					dial := sys.dial
					sys.dial = func(ctx context.Context, peer netip.AddrPort) (*net.TCPConn, error) {
						if err := fail(); err != nil {
							return nil, os.NewSyscallError("socket", err)
						}
						return dial(ctx, peer)
					}
				})
				w.take(appListener)
				if got, err := ask(appListener.Addr); got != "peer" && (c.failed == 0 || !ends(got, err)) {
					t.Errorf("%q, %v", got, err)
				}
				if got, err := ask(appListener.Addr); got != "peer" {
					t.Errorf("%q, %v", got, err)
				}
				if s := w.taker.Stats(); s.Failed != c.failed || s.Relayed != 2-c.failed || s.PeersAnswer != 1 {
					t.Errorf("%+v", s)
				}
				w.quiet()
			})
		})
	}
}

// An internal error costs the connection that met it, and no other.
func TestInternalErrorCostsOneConnection(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), answersLine("peer"))
		var broken atomic.Bool
		w := run(t, Options{Targets: toPeer}, func(sys *system) {
			dial := sys.dial
			sys.dial = func(ctx context.Context, peer netip.AddrPort) (*net.TCPConn, error) {
				if broken.Swap(false) {
					panic("boom")
				}
				return dial(ctx, peer)
			}
		})
		w.take(appListener)
		broken.Store(true)
		if got, err := ask(appListener.Addr); !ends(got, err) {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := ask(appListener.Addr); got != "peer" {
			t.Errorf("%q, %v", got, err)
		}
		w.quiet()
	})
}
