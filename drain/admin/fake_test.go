package admin

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lameduck/drain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watchdog ends a test that waits for something that does not come.
const watchdog = 20 * time.Second

// fake stands for the drain. What a drain promises is tested in package drain; here every state of it is needed at
// once, and every call that reaches it has to be seen, which a real drain neither offers nor can be asked for.
type fake struct {
	mu       sync.Mutex
	status   drain.Status
	draining bool
	unwell   error
	slow     func() // runs inside AppHealth
	triggers []string
	checks   []check
	left     []netip.AddrPort
	waiting  int

	released chan struct{}
	changed  chan struct{} // closed at a change
	begun    chan struct{} // closed by begin
}

type check struct {
	source netip.AddrPort
	failed bool
}

func newFake() *fake {
	return &fake{
		status:   drain.Status{Phase: drain.Serving},
		released: make(chan struct{}),
		changed:  make(chan struct{}),
		begun:    make(chan struct{}),
	}
}

func (f *fake) Trigger(by string) {
	f.set(func(f *fake) { f.triggers = append(f.triggers, by) })
}

func (f *fake) Hold(ctx context.Context) {
	f.wait(1)
	defer f.wait(-1)
	select {
	case <-f.released:
	case <-ctx.Done():
	}
}

func (f *fake) wait(n int) {
	f.set(func(f *fake) { f.waiting += n })
}

// await returns when the condition holds.
func (f *fake) await(t *testing.T, what string, condition func(*fake) bool) {
	t.Helper()
	timeout := time.After(watchdog)
	for {
		f.mu.Lock()
		now, changed := condition(f), f.changed
		f.mu.Unlock()
		if now {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func (f *fake) awaitHolds(t *testing.T, n int) {
	t.Helper()
	f.await(t, fmt.Sprintf("%d holds", n), func(f *fake) bool { return f.waiting == n })
}

func (f *fake) Status() drain.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *fake) Draining() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draining
}

func (f *fake) AppHealth(context.Context) error {
	f.mu.Lock()
	slow := f.slow
	f.mu.Unlock()
	if slow != nil {
		slow()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unwell
}

func (f *fake) Begun() <-chan struct{} { return f.begun }

// begin is the trigger.
func (f *fake) begin() {
	f.set(func(f *fake) { f.draining = true })
	close(f.begun)
}

func (f *fake) Checked(source netip.AddrPort, failed bool) {
	f.set(func(f *fake) { f.checks = append(f.checks, check{source, failed}) })
}

func (f *fake) CheckerLeft(source netip.AddrPort) {
	f.set(func(f *fake) { f.left = append(f.left, source) })
}

// set changes the fake and wakes those who await a change.
func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
	close(f.changed)
	f.changed = make(chan struct{})
}
