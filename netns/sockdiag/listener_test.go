package sockdiag_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/netns/netnstest"
	"lameduck/netns/sockdiag"
)

// bind tries to listen on an IPv4 port of loopback.
func bind(port uint16) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(context.Background(), "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
}

func silent(t testing.TB, events <-chan sockdiag.Event, why string) {
	t.Helper()
	select {
	case e := <-events:
		t.Errorf("%s: %+v", why, e)
	default:
	}
}

// The event waits for the half-open connection's timer, the port does not: so bind attempts have to find it free.
func TestPortIsFreeBeforeTheEventOfAListenerWithAHalfOpenConnection(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "127.0.0.1:0")
		port := portOf(listener)
		halfOpen(t, port)
		until(t, port, sockdiag.SynRecv, "half open", anyone)
		events := watch(t, (*sockdiag.Watcher).FilterListeners)
		listener.Close()
		closed := time.Now()
		ours, err := bind(port)
		if err != nil {
			t.Fatalf("the port is not free: %v", err)
		}
		defer ours.Close()
		free := time.Since(closed)
		silent(t, events, "the event did not wait: bind attempts may be needless")
		e := nextOf(t, events, port)
		t.Logf("port free after %v, event after %v", free, e.At.Sub(closed))
		if !e.Listener {
			t.Errorf("%+v", e)
		}
	})
}

// A child process of the app still holds the listener (C29).
func TestListenerHeldByAChildLivesAndItsQueueFills(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "127.0.0.1:0")
		port := portOf(listener)
		file, err := listener.File()
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command("cat") // lives until its input ends
		child.ExtraFiles = append(child.ExtraFiles, file)
		input, err := child.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { input.Close(); child.Wait() })
		events := watch(t, (*sockdiag.Watcher).FilterListeners)
		file.Close()
		listener.Close()

		dial(t, listener, "127.0.0.1") // the kernel accepts
		if s := until(t, port, sockdiag.Listen, "held", anyone); s.RQueue != 1 {
			t.Errorf("accept queue %d, want 1", s.RQueue)
		}
		if _, err := bind(port); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("bind: %v", err)
		}
		silent(t, events, "the listener lives")
		input.Close()
		if e := nextOf(t, events, port); !e.Listener {
			t.Errorf("%+v", e)
		}
	})
}

// shutdown on a listener, as some servers do before they close it, ends it: the event comes at close.
func TestShutdownOfAListenerIsNoEvent(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "127.0.0.1:0")
		port := portOf(listener)
		raw, err := listener.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		events := watch(t, (*sockdiag.Watcher).FilterListeners)
		if err := raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_RD) }); err != nil {
			t.Fatal(err)
		}
		refused(t, port)
		if all := dump(t, open(t), sockdiag.Query{States: sockdiag.Of(sockdiag.Listen)}); len(all) != 0 {
			t.Errorf("listeners after shutdown: %+v", all)
		}
		other := listen(t, "127.0.0.1:0")
		other.Close()
		if e := next(t, events); e.Socket.Local.Port() != portOf(other) {
			t.Errorf("an event before the close: %+v", e)
		}
		listener.Close()
		if e := nextOf(t, events, port); !e.Listener {
			t.Errorf("%+v", e)
		}
	})
}

func TestListenSucceedsOnTheEventOfTheDeath(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "127.0.0.1:0")
		port := portOf(listener)
		client, _ := connect(t, listener, "127.0.0.1") // open connections of a Go server do not hold the port
		exchange(t, client, client, 0)
		events := watch(t, (*sockdiag.Watcher).FilterListeners)
		listener.Close()
		nextOf(t, events, port)
		ours, err := bind(port)
		if err != nil {
			t.Fatal(err)
		}
		ours.Close()
	})
}

// Without SO_REUSEADDR on the app's side its connections hold the port: the kernel's refusal is all there is.
func TestConnectionsOfAListenerWithoutReuseHoldThePort(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 1)); err != nil {
			t.Fatal(err)
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		port := uint16(name.(*unix.SockaddrInet4).Port)
		client, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(server)
		unix.Close(fd)
		refused(t, port)
		if ours, err := bind(port); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("bind: %v, %v", ours, err)
		}
	})
}
