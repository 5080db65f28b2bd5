package sockdiag_test

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"lameduck/netns/netnstest"
	"lameduck/netns/sockdiag"
)

const watchdog = 10 * time.Second

// watch runs a Watcher for the test's length; setup, which may be nil, is called before. Deaths from before the Watcher,
// as of the sockets by which package net tries out what the kernel can do, may still be told after it: they are read
// away here, up to those of two listeners.
func watch(t testing.TB, setup func(*sockdiag.Watcher) error) <-chan sockdiag.Event {
	t.Helper()
	watcher, err := sockdiag.Watch()
	if err != nil {
		t.Fatal(err)
	}
	if setup != nil {
		if err := setup(watcher); err != nil {
			t.Fatal(err)
		}
	}
	events := run(t, watcher)
	for range 2 {
		listener := listen(t, "[::]:0")
		listener.Close()
		nextOf(t, events, portOf(listener))
	}
	return events
}

func run(t testing.TB, watcher *sockdiag.Watcher) <-chan sockdiag.Event {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(context.Background())
	events, ended := make(chan sockdiag.Event, 1<<15), make(chan error)
	go func() { ended <- watcher.Run(ctx, func(e sockdiag.Event) { events <- e }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		watcher.Close()
		goleak.VerifyNone(t, leaks)
	})
	return events
}

func next(t testing.TB, events <-chan sockdiag.Event) sockdiag.Event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(watchdog):
		t.Fatal("no event")
		return sockdiag.Event{}
	}
}

// nextOf returns the next event of a local port.
func nextOf(t testing.TB, events <-chan sockdiag.Event, port uint16) sockdiag.Event {
	t.Helper()
	for {
		if e := next(t, events); e.Socket.Local.Port() == port {
			return e
		}
	}
}

func TestListenersDeathIsAnEventWithoutPrivilege(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		events := watch(t, (*sockdiag.Watcher).FilterListeners)
		for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
			for _, multipath := range []bool{false, true} { // Go's servers listen by MPTCP where the kernel has it
				config := net.ListenConfig{}
				config.SetMultipathTCP(multipath)
				listener, err := config.Listen(t.Context(), "tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				local := listener.Addr().(*net.TCPAddr).AddrPort()
				listener.Close()
				e := nextOf(t, events, local.Port())
				if !e.Listener || e.Lost || e.Socket.State != sockdiag.Closed || e.Socket.Remote.Port() != 0 || e.Socket.V6Only {
					t.Errorf("death of the listener at %s: %+v", local, e)
				}
				if address != "0.0.0.0:0" && e.Socket.Local != local { // which Go turns into [::]
					t.Errorf("local %s, want %s", e.Socket.Local, local)
				}
			}
		}
	})
}

func TestListenerFilterLetsNothingElsePass(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		events := watch(t, (*sockdiag.Watcher).FilterListeners)
		listener := listen(t, "[::]:0")
		for _, host := range []string{"127.0.0.1", "::1"} {
			client, server := connect(t, listener, host)
			exchange(t, client, server, 10)
			server.Close()
			client.Close()
		}
		dial(t, listener, "127.0.0.1") // never accepted: dies with the listener
		dial(t, listener, "::1")
		refused(t, 1)
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		listener.Close()
		if e := next(t, events); !e.Listener || e.Socket.Local.Port() != portOf(listener) {
			t.Errorf("first event: %+v", e)
		}
		second := listen(t, "127.0.0.1:0")
		second.Close()
		if e := next(t, events); !e.Listener || e.Socket.Local.Port() != portOf(second) {
			t.Errorf("second event: %+v", e)
		}
	})
}

func TestPortFilterLetsThePortsConnectionsPass(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		ours, other := listen(t, "[::]:0"), listen(t, "127.0.0.1:0")
		events := watch(t, func(w *sockdiag.Watcher) error { return w.FilterPorts([]uint16{1, 2, portOf(ours)}) })
		client, server := connect(t, other, "127.0.0.1")
		server.Close()
		client.Close()
		client, server = connect(t, ours, "127.0.0.1")
		exchange(t, client, server, 65)
		client.Close()
		server.Close()
		e := next(t, events)
		if e.Listener || e.Socket.Local.Port() != portOf(ours) || e.Socket.Remote != client.LocalAddr().(*net.TCPAddr).AddrPort() {
			t.Errorf("connection's death: %+v", e)
		}
		if info := e.Socket.Info; !e.Socket.HasInfo || info.DataSegsIn != 1 || info.DataSegsOut != 0 || info.BytesReceived != 66 {
			t.Errorf("its last tcp_info, of 65 bytes and a FIN: %+v", info)
		}
		other.Close()
		if e := next(t, events); !e.Listener || e.Socket.Local.Port() != portOf(other) {
			t.Errorf("death of a listener of another port: %+v", e)
		}
	})
}

func TestUnacceptedConnectionsDeathIsNoListeners(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
				listener := listen(t, "[::]:0")
				events := watch(t, func(w *sockdiag.Watcher) error { return w.FilterPorts([]uint16{portOf(listener)}) })
				dial(t, listener, host)
				listener.Close()
				var listeners, children int
				for range 2 {
					e := next(t, events)
					if e.Socket.Remote.Port() != 0 {
						t.Errorf("remote %s: it was thought to have lost its port", e.Socket.Remote)
					}
					if e.Listener {
						listeners++
					} else if e.Socket.Remote.Addr().String() == host {
						children++
					}
				}
				if listeners != 1 || children != 1 {
					t.Errorf("%d listeners, %d children, want one each", listeners, children)
				}
			})
		})
	}
}

func TestWatcherHearsItsOwnNamespaceAlone(t *testing.T) {
	here, there := netnstest.New(t), netnstest.New(t)
	var events <-chan sockdiag.Event
	here.Do(t, func() { events = watch(t, (*sockdiag.Watcher).FilterListeners) })
	there.Do(t, func() { listen(t, "127.0.0.1:7001").Close() })
	here.Do(t, func() { listen(t, "127.0.0.1:7002").Close() })
	if e := next(t, events); e.Socket.Local.Port() != 7002 {
		t.Errorf("first event: %+v", e)
	}
}

func TestRunEndsWithContextOrClose(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		defer goleak.VerifyNone(t)
		watcher, err := sockdiag.Watch()
		if err != nil {
			t.Fatal(err)
		}
		events, ended := make(chan sockdiag.Event, 100), make(chan error)
		start := func(ctx context.Context) {
			go func() { ended <- watcher.Run(ctx, func(e sockdiag.Event) { events <- e }) }()
			listener := listen(t, "127.0.0.1:0")
			listener.Close()
			nextOf(t, events, portOf(listener)) // it runs
		}
		end := func(how string) {
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("Run, ended by %s: %v", how, err)
				}
			case <-time.After(watchdog):
				t.Fatalf("Run did not end by %s", how)
			}
		}
		for range 2 { // it can be run again
			ctx, cancel := context.WithCancel(t.Context())
			start(ctx)
			cancel()
			end("context")
		}
		start(t.Context())
		watcher.Close()
		end("Close")
		if err := watcher.Run(t.Context(), nil); err == nil {
			t.Error("a closed Watcher runs")
		}
	})
}
