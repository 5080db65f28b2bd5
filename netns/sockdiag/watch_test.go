package sockdiag_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lameduck/netns/netnstest"
	"lameduck/netns/sockdiag"
)

const watchdog = 10 * time.Second

// watch runs a Watcher for the test's length; setup, which may be nil, is called before.
func watch(t testing.TB, setup func(*sockdiag.Watcher) error) <-chan sockdiag.Event {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	watcher, err := sockdiag.Watch()
	if err != nil {
		t.Fatal(err)
	}
	if setup != nil {
		if err := setup(watcher); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	events, ended := make(chan sockdiag.Event, 1024), make(chan error)
	go func() { ended <- watcher.Run(ctx, func(e sockdiag.Event) { events <- e }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		watcher.Close()
	})
	return events
}

// await returns the first event that is wanted.
func await(t testing.TB, events <-chan sockdiag.Event, what string, wanted func(sockdiag.Event) bool) sockdiag.Event {
	t.Helper()
	timeout := time.After(watchdog)
	for {
		select {
		case e := <-events:
			if wanted(e) {
				return e
			}
		case <-timeout:
			t.Fatalf("no event: %s", what)
		}
	}
}

func TestListenersDeathIsAnEventWithoutPrivilege(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		events := watch(t, (*sockdiag.Watcher).FilterListeners)
		listener := listen(t, "[::]:0")
		port := portOf(listener)
		listener.Close()
		e := await(t, events, "listener", func(e sockdiag.Event) bool { return e.Socket.Local.Port() == port })
		if !e.Listener || e.Socket.State != sockdiag.Closed || e.Socket.Remote.Port() != 0 {
			t.Errorf("listener's death: %+v", e)
		}
	})
}
