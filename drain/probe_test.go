package drain

import (
	"testing"
	"time"
)

// probedUntil has the kubelet probe the application each second, and lets the pod end after a release at 10 s: the
// application is gone at 10.4 s, and lameduck may leave from 11.2 s on.
func probedUntil(t *testing.T, c Config) *world {
	w := newWorld(t, c)
	w.trigger()
	for w.since() < 10*time.Second {
		w.once(node, 110)
		w.run(time.Second)
	}
	w.run(400 * time.Millisecond)
	w.appExits()
	return w
}

// refuse has the kernel refuse SYNs, and lets lameduck leave if it would.
func (w *world) refuse(n uint64, after time.Duration) {
	w.run(after)
	w.refused += n
	w.segs += n
	w.next(Counted{InSegs: w.segs, Refused: w.refused})
}

// The kubelet goes on probing a container that has ended.
func TestProbesOfAnEndedContainerDoNotHoldThePod(t *testing.T) {
	w := probedUntil(t, Config{Min: 10 * time.Second})
	w.refuse(1, 600*time.Millisecond)
	w.run(200 * time.Millisecond)
	w.next(Terminated{})
	w.refuse(1, 750*time.Millisecond) // seen by the next tick only
	w.run(10 * time.Second)
	w.wantExit(ReasonQuiet, 11200*time.Millisecond, 2*half)
}

func TestSYNsThatAreNoProbesHoldThePod(t *testing.T) {
	for _, c := range []struct {
		name  string
		n     uint64
		after time.Duration // the application's end
	}{{"out of step", 1, 150 * time.Millisecond}, {"two at once", 2, 600 * time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) {
			w := probedUntil(t, Config{Min: 10 * time.Second})
			w.refuse(c.n, c.after)
			at := w.since()
			w.next(Terminated{})
			w.run(20 * time.Second)
			w.wantExit(ReasonQuiet, at+5*time.Second, 2*half)
		})
	}
}

// Before it has been quiet, what is in step with probes may be a client.
func TestSYNsInStepWithProbesHoldAPodThatWasNotQuiet(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	for range 4 {
		w.once(node, 110)
		w.once(envoy, 300)
		w.run(time.Second)
	}
	w.appExits()
	w.next(Terminated{})
	w.refuse(1, 0)
	for range 5 {
		w.refuse(1, time.Second)
	}
	at := w.since()
	w.run(20 * time.Second)
	w.wantExit(ReasonQuiet, at+5*time.Second, 2*half)
}
