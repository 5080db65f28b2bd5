package drain

import (
	"testing"
	"time"
)

// A lone poller that the rule takes for a check, wrongly: it is served for the least time, as one that nobody heard of is.
func TestPollerThatIsTakenForACheckIsServedForTheLeastTime(t *testing.T) {
	const least = 10 * time.Second
	for _, c := range []struct {
		name   string
		bytes  int
		beside func(w *world) // at the trigger
	}{
		{"its Envoy checks the health port", 220, func(w *world) { w.check(envoy, 1) }},
		{"its Envoy had sent something else", 220, func(w *world) { w.once(envoy, 3000) }},
		{"short messages over raw TCP", 30, func(*world) {}},
	} {
		for _, kept := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				w := newWorld(t, Config{GracePeriod: 60 * time.Second, Min: least})
				pool := w.open(envoy)
				w.trigger()
				c.beside(w)
				for w.since() < 20*time.Second {
					if kept {
						w.request(pool, c.bytes)
					} else {
						w.once(envoy, c.bytes)
					}
					w.run(time.Second)
				}
				w.wantReleased(least, half)
			})
		}
	}
}

// A question before the drain, of a checker or of anybody behind the same NAT, says nothing of whom sends in it.
func TestPollerWhoseSourceHasNotBeenToldIsServedAsLongAsTheSleep(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	w.check(envoy, 1)
	w.later(time.Second)
	w.trigger()
	for w.since() < 40*time.Second {
		w.once(envoy, 220)
		w.run(time.Second)
	}
	w.wantReleased(trainLimit, 3*half)
}

// A session in which the client sends at an even pace: answered it looks like a check, unanswered it is owed an answer.
func TestSessionInWhichTheClientSendsHoldsByWhetherItIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		answer int // bytes
		until  time.Duration
	}{
		"answered":                 {300, trainLimit},
		"not answered":             {0, 55 * time.Second}, // the hold's deadline
		"not answered over HTTP/2": {17, trainLimit},      // but for PING
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{GracePeriod: 60 * time.Second})
			session := w.open(envoy)
			w.request(session, 300)
			w.later(time.Millisecond)
			w.trigger()
			for w.since() < 58*time.Second {
				w.send(session, 130)
				if c.answer > 0 {
					w.leave(session, c.answer)
				}
				w.run(time.Second)
			}
			w.wantReleased(c.until, time.Second)
		})
	}
}
