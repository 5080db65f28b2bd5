package takeover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNextPeerIsTriedWhenOneFails(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), answersLine("peer"))
		dying := serveAt(t, at(otherIP, 9090), answersLine("dying"))
		opts := Options{Targets: append([]Target{{Host: at(otherIP, 9090).String()}}, toPeer...)}
		w := run(t, opts, nil)
		w.take(appListener)
		until(t, "both answer", func() bool { return w.taker.Stats().PeersAnswer == 2 })
		dying.end()
		for range 20 {
			if got, err := ask(appListener.Addr); got != "peer" {
				t.Fatalf("%q, %v", got, err)
			}
		}
		if s := w.taker.Stats(); s.Failed != 0 || s.Relayed != 20 || s.PeersAnswer != 1 {
			t.Errorf("%+v", s)
		}
		w.quiet()
	})
}

// C17: when the last peer dies the kernel refuses, and where a connection was accepted before that is known, it is reset.
func TestLastPeersDeathMakesTheKernelRefuse(t *testing.T) {
	inPod(t, func(t *testing.T) {
		peer := serveAt(t, at(peerIP, 9090), answersLine("peer"))
		w := run(t, Options{Targets: toPeer}, nil)
		w.take(appListener)
		peer.end()
		start := time.Now()
		if got, err := ask(appListener.Addr); !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%q, %v", got, err)
		}
		w.await(Released)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("known after %s", took)
		}
		for range 50 {
			if !refused(appListener.Addr) {
				t.Fatal("a port without a peer is not refused")
			}
		}
		if w.log.count("port released: no peer answers") != 1 {
			t.Errorf("log:\n%s", w.log)
		}
		serveAt(t, at(peerIP, 9090), answersLine("again"))
		w.await(Taken)
		if got, err := ask(appListener.Addr); got != "again" {
			t.Errorf("when a peer answers again: %q, %v", got, err)
		}
	})
}

func TestPortIsNotTakenWhileNoPeerAnswers(t *testing.T) {
	inPod(t, func(t *testing.T) {
		w := run(t, Options{Targets: toPeer}, nil)
		w.taker.Arm(appListener)
		w.log.await(t, "peer does not answer")
		w.taker.Kick()
		if !refused(appListener.Addr) {
			t.Error("not refused")
		}
		w.quiet()
	})
}

func TestPeerThatDropsSYNsFailsADialInItsTime(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), answersLine("peer"))
		// A peer that answered, and whose packets are dropped from then on.
		w := run(t, Options{Targets: append([]Target{{Host: at(otherIP, 9090).String()}}, toPeer...), DialTimeout: 50 * time.Millisecond}, func(sys *system) {
			dial := sys.dial
			sys.dial = func(ctx context.Context, peer netip.AddrPort) (*net.TCPConn, error) {
				if peer.Addr() == otherIP {
					<-ctx.Done()
					return nil, os.ErrDeadlineExceeded
				}
				return dial(ctx, peer)
			}
			sys.probe = answersAlways
		})
		w.take(appListener)
		until(t, "both answer", func() bool { return w.taker.Stats().PeersAnswer == 2 })
		for w.taker.Stats().PeersAnswer == 2 {
			if got, err := ask(appListener.Addr); got != "peer" {
				t.Fatalf("%q, %v", got, err)
			}
		}
	})
}

func answersAlways(context.Context, netip.AddrPort, func()) error { return nil }
