package takeover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hunger eats descriptors of the process until none is left.
type hunger struct{ fds []int }

// eat lowers the limit first, so that there is little to eat.
func (h *hunger) eat(t *testing.T) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.spit(len(h.fds))
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	})
	h.more(t)
}

func (h *hunger) more(t *testing.T) {
	t.Helper()
	for {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if errors.Is(err, unix.EMFILE) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		h.fds = append(h.fds, fd)
	}
}

// spit gives n of them back.
func (h *hunger) spit(n int) {
	for _, fd := range h.fds[len(h.fds)-n:] {
		unix.Close(fd)
	}
	h.fds = h.fds[:len(h.fds)-n]
}

// isFull tells whether the takeover has its reserve.
func (w *world) isFull() bool {
	w.taker.sys.spare.mu.Lock()
	defer w.taker.sys.spare.mu.Unlock()
	return len(w.taker.sys.spare.fds) == spareFiles
}

// occupied lets a port be in use until it is left; no descriptor is opened or closed by that.
func occupied(left *atomic.Bool) func(*system) {
	return func(sys *system) {
		bind := sys.bind
		sys.bind = func(fd int, sa unix.Sockaddr) error {
			if !left.Load() {
				return unix.EADDRINUSE
			}
			return bind(fd, sa)
		}
	}
}

// C24: a port is armed, its peer probed, and it is taken, with no descriptor left. Its connections wait in the backlog then.
func TestPortIsTakenWithNoDescriptorLeft(t *testing.T) {
	inPod(t, func(t *testing.T) {
		peer := bindTo(t, at(peerIP, 9090))
		var left atomic.Bool
		w := run(t, Options{Targets: toPeer}, occupied(&left))
		until(t, "some are reserved", w.isFull)
		var h hunger
		h.eat(t)
		w.taker.Arm(appListener)
		until(t, "the peer answers", func() bool { return w.taker.Stats().PeersAnswer == 1 })
		left.Store(true)
		w.taker.Kick()
		w.await(Taken)
		if w.log.count("cannot be taken") != 0 {
			t.Errorf("log:\n%s", w.log)
		}
		h.spit(1) // for the one that the port has
		until(t, "they are reserved again", w.isFull)
		h.more(t)
		h.spit(1)
		client := dialFrom(t, clientIP, appListener.Addr) // by the one
		if _, err := client.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		w.log.await(t, "cannot be accepted yet")
		h.spit(len(h.fds))
		answerOnce(t, peer)
		if !firstRead(client, make([]byte, 1)) {
			t.Error("the connection that waited is not served")
		}
		if s := w.taker.Stats(); s.Failed != 0 || s.Relayed != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// answerOnce echoes a byte to the first connection that sends one; those before are probes.
func answerOnce(t *testing.T, ln *net.TCPListener) {
	t.Helper()
	for {
		c, err := ln.AcceptTCP()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1)
		heard := firstRead(c, b)
		if heard {
			_, _ = c.Write(b)
		}
		c.Close()
		if heard {
			return
		}
	}
}

func TestReleasedPortIsTakenAgainWithNoDescriptorLeft(t *testing.T) {
	inPod(t, func(t *testing.T) {
		var down atomic.Bool
		w := run(t, Options{Targets: toPeer}, func(sys *system) {
			sys.probe = func(context.Context, netip.AddrPort, func()) error {
				if down.Load() {
					return errRefused
				}
				return nil
			}
		})
		until(t, "some are reserved", w.isFull)
		w.take(appListener)
		var h hunger
		h.eat(t)
		down.Store(true)
		w.await(Released)
		down.Store(false)
		h.more(t)
		w.await(Taken)
		if w.log.count("cannot be taken") != 0 {
			t.Errorf("log:\n%s", w.log)
		}
	})
}

// A connection that was accepted with the last descriptor waits for one to its peer, longer than a dial may take.
func TestConnectionWaitsForADescriptorToItsPeer(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), answersLine("peer"))
		fail := failing(40, unix.EMFILE)
		w := run(t, Options{Targets: toPeer, DialTimeout: 100 * time.Millisecond}, func(sys *system) {
			dial := sys.dial
			sys.dial = func(ctx context.Context, peer netip.AddrPort) (*net.TCPConn, error) {
				if err := fail(); err != nil {
					return nil, err
				}
				return dial(ctx, peer)
			}
		})
		w.take(appListener)
		if got, err := ask(appListener.Addr); got != "peer" {
			t.Errorf("%q, %v", got, err)
		}
	})
}
