package drain

import (
	"testing"
	"time"
)

// Of a connection that is known such an end tells no more. A request may have come before it, unless nothing has come at all.
func TestRequestBeforeAKnownConnectionIsResetHoldsDrain(t *testing.T) {
	for _, asked := range []bool{true, false} {
		w := newWorld(t, Config{})
		var pool []uint64
		for range 40 {
			pool = append(pool, w.open(envoy))
			w.request(pool[len(pool)-1], 300)
		}
		w.later(time.Second)
		w.trigger()
		for _, c := range pool {
			w.run(200 * time.Millisecond)
			if asked {
				w.request(c, 300)
			}
			w.void(c)
		}
		w.run(time.Minute)
		if asked {
			w.wantReleased(14*time.Second, half)
		} else {
			w.wantReleased(6*time.Second, half)
		}
	}
}

// A peer that closes by RST has its client reset by lameduck, with the same effect.
func TestRelayedConnectionsThatAreResetHoldDrain(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.takeover()
	for w.since() < 8*time.Second {
		w.void(w.open(envoy))
		w.next(Cut{envoy, appAddr.Port()})
		w.run(100 * time.Millisecond)
	}
	w.run(time.Minute)
	w.wantExit(ReasonQuiet, 12500*time.Millisecond, 2*half)
}
