package drain

import (
	"strings"
	"testing"
	"time"

	"lameduck/netns/sockdiag"
)

// later moves the clock without a tick: what happens next shares the next sample with what came before.
func (w *world) later(d time.Duration) { w.now = w.now.Add(d) }

// burst lets several requests be answered at once, and something more come after the last answer, all between two samples.
func (w *world) burst(c uint64, requests, bytes int, gap time.Duration, last int) {
	for range requests {
		w.request(c, bytes)
		w.later(time.Millisecond)
	}
	w.answer(c)
	w.later(gap)
	w.send(c, last)
}

// What Envoy's HTTP/2 codec sends after an answer, and what is a request.
func TestFrameThatAcknowledgesAnAnswerIsNotOwed(t *testing.T) {
	const grace = 100 * time.Second
	for name, c := range map[string]struct {
		requests, bytes int
		gap, roundTrip  time.Duration
		last            int
		kind            debtKind
	}{
		"PING acknowledged":                       {0, 0, 4 * time.Millisecond, 0, 17, noDebt},
		"two WINDOW_UPDATEs, two jiffies":         {0, 0, 8 * time.Millisecond, 0, 26, noDebt},
		"the same in a TLS 1.2 record":            {0, 0, 8 * time.Millisecond, 0, 55, noDebt},
		"SETTINGS acknowledged over a long way":   {0, 0, 44 * time.Millisecond, 40 * time.Millisecond, 9, noDebt},
		"small, but nobody's acknowledgement":     {0, 0, 44 * time.Millisecond, 0, 9, debt},
		"a request of HTTP/2 alone":               {0, 0, 8 * time.Millisecond, 0, 56, debt},
		"a request of HTTP/1.1 alone":             {0, 0, 4 * time.Millisecond, 0, 220, debt},
		"PING acknowledged after HTTP/2 requests": {5, 56, 4 * time.Millisecond, 0, 17, noDebt},
		"the last of HTTP/1.1 requests in a row":  {5, 220, 4 * time.Millisecond, 0, 220, doubtful},
		"the same after a pause":                  {5, 220, 20 * time.Millisecond, 0, 220, debt},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{GracePeriod: grace})
			open := w.open(envoy)
			w.conns[open].Info.RoundTrip = c.roundTrip
			w.request(open, 300)
			w.trigger()
			w.run(time.Second)
			w.burst(open, c.requests, c.bytes, c.gap, c.last)
			w.run(60 * time.Second)
			switch c.kind {
			case noDebt:
				w.wantReleased(6*time.Second, half)
			case doubtful:
				w.wantReleased(trainLimit, half)
			case debt:
				w.wantHeld()
			}
		})
	}
}

// C2: a pool of HTTP/2 connections, each of which ends with a frame of Envoy's, long before the trigger.
func TestIdleHTTP2PoolDoesNotHoldDrain(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 100 * time.Second})
	for range 8 {
		c := w.open(envoy)
		w.burst(c, 10, 56, 4*time.Millisecond, 13)
	}
	w.later(time.Minute)
	w.trigger()
	start := w.now
	w.run(40 * time.Second)
	if got := w.releasedAt.Sub(start); w.releasedAt.IsZero() || got > 5*time.Second+half {
		t.Errorf("released after %v", got)
	}
}

// At first sight only a connection's whole life is known.
func TestDoubtAtFirstSightLastsAsLongAsTheSleep(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 100 * time.Second})
	w.burst(w.open(envoy), 10, 800, 4*time.Millisecond, 17) // HTTP/2 with a token of 750 bytes
	w.trigger()
	start := w.now
	w.run(40 * time.Second)
	if got := w.releasedAt.Sub(start); got < trainLimit || got > trainLimit+half {
		t.Errorf("released after %v", got)
	}
}

// A server's HTTP/2 code speaks when a request comes, and long before the answer (measured of grpc-go and net/http).
func TestFrameBeforeTheAnswerIsNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		asked  int
		frames []int
		fresh  bool // the connection opens with this request
	}{
		"gRPC: PING and WINDOW_UPDATE":             {300, []int{30}, false},
		"gRPC: PING alone":                         {60, []int{17}, false},
		"gRPC, first request":                      {320, []int{39, 30}, true},
		"net/http, first request":                  {217, []int{61}, true},
		"net/http: the windows of a body of 20 kB": {20300, []int{26, 26, 26, 26, 26}, false},
	} {
		test := func(t *testing.T, sampled bool) {
			w := newWorld(t, Config{GracePeriod: 60 * time.Second})
			old := w.open(envoy)
			w.request(old, 300)
			w.trigger()
			w.run(half)
			if c.fresh {
				old = w.open(envoy)
			}
			w.send(old, c.asked)
			if sampled {
				w.sample()
			}
			for _, f := range c.frames {
				w.later(time.Millisecond)
				w.leave(old, f)
			}
			w.later(time.Millisecond)
			w.send(old, 17) // PING acknowledged
			w.run(12 * time.Second)
			w.wantHeld()
			w.answer(old)
			w.run(30 * time.Second)
			w.wantReleased(12500*time.Millisecond, sendingFor+half)
		}
		t.Run(name, func(t *testing.T) { test(t, false) })
		t.Run(name+", and a sample before it", func(t *testing.T) { test(t, true) })
	}
}

// HTTP/2 again: a short request beside a long one is answered, and the long one is not.
func TestRequestBesideASlowOneLeavesItOwed(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	c := w.open(envoy)
	w.request(c, 300)
	w.trigger()
	w.run(half)
	w.send(c, 60)
	w.leave(c, 17) // PING
	w.run(2 * half)
	w.request(c, 60)
	w.run(20 * time.Second)
	w.wantHeld()
	w.run(time.Minute)
	w.wantReleased(trainLimit, half)
}

// C2: an answer can be as short as what opens an HTTP/2 connection (of Go's server: 75 bytes of an empty 200, 64 of a 204).
func TestShortAnswerOverHTTP1IsAnAnswer(t *testing.T) {
	for _, bytes := range []int{64, 75} {
		for _, before := range []bool{true, false} {
			w := newWorld(t, Config{GracePeriod: 60 * time.Second})
			ask := func() {
				c := w.open(envoy)
				w.send(c, 220)
				w.later(2 * time.Millisecond)
				w.leave(c, bytes)
			}
			if before {
				ask()
				w.later(time.Minute)
			}
			w.trigger()
			at := w.since()
			if !before {
				ask()
			}
			w.run(40 * time.Second)
			w.wantReleased(at+5*time.Second, half)
		}
	}
}

// An upload comes in many pieces, and is one request.
func TestAnsweredUploadIsNotOwed(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	c := w.open(envoy)
	w.request(c, 300)
	w.trigger()
	for range 8 {
		w.send(c, 40_000)
		w.run(half)
	}
	w.answer(c)
	at := w.since()
	w.run(time.Minute)
	w.wantReleased(at+5*time.Second-half, 2*half)
}

func TestAnswerWhosePiecesAreFarApartIsOwed(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	c := w.open(envoy)
	w.request(c, 300)
	w.later(time.Millisecond)
	w.trigger()
	for w.since() < 12*time.Second {
		w.run(1500 * time.Millisecond)
		w.leave(c, 1000)
		w.wantHeld()
	}
	at := w.since()
	w.run(time.Minute)
	w.wantReleased(at+2*time.Second, time.Second)
}

// A PING of Envoy's own (connection_keepalive) asks for nothing that the drain would wait for.
func TestAnsweredPingIsNotOwed(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	c := w.open(envoy)
	w.request(c, 300)
	w.trigger()
	w.run(half)
	w.send(c, 17)
	w.leave(c, 17)
	w.run(time.Minute)
	w.wantReleased(5500*time.Millisecond, half)
}

// Who waits for an answer that one side has hung up on, waits no longer than the sleep.
func TestHalfOpenRemainderHoldsNoLongerThanTheSleep(t *testing.T) {
	for name, change := range map[string]func(*sockdiag.Socket){
		"the client closed, the application never read": func(s *sockdiag.Socket) { s.State, s.RQueue = sockdiag.CloseWait, 300 },
		"the application closed, the client is lost":    func(s *sockdiag.Socket) { s.State, s.WQueue, s.Inode = sockdiag.FinWait1, 300, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{GracePeriod: 60 * time.Second})
			c := w.open(envoy)
			w.request(c, 300)
			change(w.conns[c])
			w.trigger()
			w.run(time.Minute)
			w.wantReleased(trainLimit, half)
		})
	}
}

// C11: a stream that sends each second is an answer without an end, a silent one is none. Both are left to the application,
// which is killed with them, and are counted.
func TestEndlessStreamsAreCountedAtTheRelease(t *testing.T) {
	w := newWorld(t, Config{})
	sends, silent := w.open(envoy), w.open(envoy)
	for _, c := range []uint64{sends, silent} {
		w.send(c, 300)
		w.answer(c)
	}
	w.trigger()
	for w.since() < 30*time.Second {
		w.run(time.Second)
		w.leave(sends, 30)
		w.sample()
	}
	w.wantReleased(25*time.Second, half)
	w.close(sends)
	w.close(silent)
	w.appExits()
	w.next(Terminated{})
	w.run(half)
	w.wantExit(ReasonDeadline, 30*time.Second, half)
	if w.words.LeftOpen != 2 || w.words.LeftOwed != 1 || w.words.Connections != 0 {
		t.Errorf("last words: %+v", w.words)
	}
	if w.words.GraceNeeded <= 30 || !strings.Contains(w.words.Why, "streams that do not end") {
		t.Errorf("grace needed %d, why %q", w.words.GraceNeeded, w.words.Why)
	}
}

// The line at the exit is the one that people look at: what the hold cost stands in it though it was quiet at last.
func TestLastWordsTellWhatTheHoldLeftThoughItWasQuietAtLast(t *testing.T) {
	w := newWorld(t, Config{})
	mute := w.open(envoy)
	w.send(mute, 300)
	w.later(time.Second)
	w.trigger()
	w.run(25500 * time.Millisecond)
	w.wantReleased(26*time.Second, half) // 25 s after the trigger
	w.close(mute)
	w.appExits()
	w.next(Terminated{})
	w.run(10 * time.Second)
	if w.words.Reason != ReasonQuiet || w.words.Released != ReasonDeadline || !strings.Contains(w.words.Why, "1 requests had no answer") {
		t.Errorf("last words: %+v", w.words)
	}
}
