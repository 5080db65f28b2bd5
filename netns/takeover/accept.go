package takeover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// slots bound the connections that are served at once, by the descriptors that they may need.
// Those beyond wait in the kernel's backlog.
type slots struct {
	free chan struct{}
	log  *slog.Logger
	said *atomic.Bool
}

func newSlots(n int, log *slog.Logger) slots {
	return slots{free: make(chan struct{}, n), log: log, said: new(atomic.Bool)}
}

func (s slots) acquire(done <-chan struct{}) bool {
	select {
	case s.free <- struct{}{}:
		return true
	default:
	}
	if !s.said.Swap(true) {
		s.log.Warn("no more connections are accepted until others end: the limit of open files (ulimit -n) is near",
			"relayed", cap(s.free))
	}
	select {
	case s.free <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

func (s slots) release() { <-s.free }

// The pauses after an accept that failed for want of something (EMFILE, ENFILE, ENOBUFS).
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// accept serves each connection of a taken listener until that is closed, and done with it. No other error ends it.
// The connections live on until ctx is done.
func (t *Takeover) accept(ctx context.Context, ln *net.TCPListener, l Listener, done <-chan struct{}) {
	pause := firstPause
	for t.slots.acquire(done) {
		c, err := t.sys.accept(ln)
		if err == nil {
			pause = firstPause
			t.work.Go(func() {
				defer t.slots.release()
				defer t.guard()
				t.welcome(ctx, c, l)
			})
			continue
		}
		t.slots.release()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if pause == firstPause {
			t.log.Warn("a connection on a taken port cannot be accepted yet", "address", l.Addr, "error", root(err))
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-done:
			return
		}
	}
}

// welcome decides what becomes of an accepted connection, and sees to its end.
func (t *Takeover) welcome(ctx context.Context, c *net.TCPConn, l Listener) {
	own := t.conns.add(c)
	defer t.conns.remove(own)
	defer c.Close()
	if marked(c) {
		t.looped.Add(1)
		if !t.saidLoop.Swap(true) {
			t.log.Warn("a relayed connection came back: a relay target leads here; it is closed, not relayed again",
				"address", l.Addr, "from", own.remote)
		}
		reset(c)
		return
	}
	switch v := t.sniff(c); {
	case v.isCheck():
		t.conns.failed(own)
		if answer(c, v) != nil {
			return
		}
		t.checks.Add(1)
		t.opts.Notify(Event{Kind: CheckFailed, Listener: l, Remote: own.remote, Time: time.Now()})
		linger(c)
	case v.kind == lost:
	default:
		if t.relay(ctx, own, l.Addr.Port(), v.kind == pass) && ctx.Err() == nil {
			t.opts.Notify(Event{Kind: Reset, Listener: l, Remote: own.remote, Time: time.Now()})
		}
	}
}

// guard keeps a fault of ours to the connection that met it.
func (t *Takeover) guard() {
	if r := recover(); r != nil {
		t.log.Error("internal error", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	}
}

// reset closes the connection by RST.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // fails only on a closed one
	c.Close()
}
