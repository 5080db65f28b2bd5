package takeover

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// await returns the next event, which must be of the kind.
func (w *world) await(kind EventKind) Event {
	w.t.Helper()
	e := receive(w.t, w.events)
	if e.Kind != kind {
		w.t.Fatalf("event %+v, not of kind %d", e, kind)
	}
	return e
}

// until waits for a condition that changes without an event of its own.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(watchdog); !ok(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

// receive waits for a value.
func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(watchdog):
		t.Fatal("nothing comes")
	}
	return v
}

// lines is a log that can be waited for.
type lines struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(part string) int { return strings.Count(l.String(), part) }

// await waits until the log contains part.
func (l *lines) await(t *testing.T, part string) {
	t.Helper()
	for end := time.After(watchdog); l.count(part) == 0; {
		select {
		case <-l.changed:
		case <-end:
			t.Fatalf("the log never says %q:\n%s", part, l)
		}
	}
}
