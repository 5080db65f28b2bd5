package sockdiag_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/netns/netnstest"
	"lameduck/netns/sockdiag"
)

// until dumps a port's sockets until the only one in a state is as it is wanted. The tick is no bound: the watchdog is.
func until(t *testing.T, port uint16, state sockdiag.State, what string, wanted func(sockdiag.Socket) bool) sockdiag.Socket {
	t.Helper()
	dumper := open(t)
	timeout, tick := time.After(watchdog), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		found := dump(t, dumper, sockdiag.Query{States: sockdiag.Of(state), Ports: []uint16{port}})
		if len(found) == 1 && wanted(found[0]) {
			return found[0]
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("no socket in state %d: %s: %+v", state, what, found)
		}
	}
}

func anyone(sockdiag.Socket) bool { return true }

func TestFINIsOneByteAndNoDataSegment(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "127.0.0.1:0")
		client, server := connect(t, listener, "127.0.0.1")
		exchange(t, client, server, 100)
		before := until(t, portOf(listener), sockdiag.Established, "open", anyone)
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		after := until(t, portOf(listener), sockdiag.CloseWait, "half closed", anyone)
		if before.Info.BytesReceived != 100 || after.Info.BytesReceived != 101 {
			t.Errorf("bytes %d, with the FIN %d", before.Info.BytesReceived, after.Info.BytesReceived)
		}
		if before.Info.DataSegsIn != 1 || after.Info.DataSegsIn != 1 {
			t.Errorf("data segments %d, with the FIN %d", before.Info.DataSegsIn, after.Info.DataSegsIn)
		}
		if server.RemoteAddr() == nil {
			t.Fatal("unreachable: it keeps the connection open until here")
		}
	})
}

// An owed answer (C25): data came after any was sent.
func TestOwedAnswerShowsInTheAges(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "127.0.0.1:0")
		port := portOf(listener)
		client, server := connect(t, listener, "127.0.0.1")
		aged := func(s sockdiag.Socket) bool {
			return min(s.Info.LastDataRecv, s.Info.LastDataSent) >= 30*time.Millisecond
		}

		fresh := until(t, port, sockdiag.Established, "aged", aged)
		if fresh.Info.DataSegsIn != 0 || fresh.Info.DataSegsOut != 0 {
			t.Errorf("no data yet: %+v", fresh.Info)
		}
		exchange(t, client, server, 10)
		if first := until(t, port, sockdiag.Established, "first request", anyone).Info; first.DataSegsIn != 1 || first.DataSegsOut != 0 || first.LastDataSent <= first.LastDataRecv {
			t.Errorf("first request is owed: %+v", first)
		}
		exchange(t, server, client, 10)
		if answered := until(t, port, sockdiag.Established, "answered", aged).Info; answered.LastDataSent > answered.LastDataRecv {
			t.Errorf("answered: %+v", answered)
		}
		exchange(t, client, server, 10)
		if second := until(t, port, sockdiag.Established, "second request", anyone).Info; second.LastDataSent <= second.LastDataRecv {
			t.Errorf("second request is owed: %+v", second)
		}
	})
}

func TestUnacceptedConnectionHasNoInodeAndIsCountedByItsListener(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "127.0.0.1:0")
		client := dial(t, listener, "127.0.0.1")
		if _, err := client.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if s := until(t, portOf(listener), sockdiag.Established, "unaccepted", anyone); s.Inode != 0 || s.Info.DataSegsIn != 1 {
			t.Errorf("unaccepted: %+v", s)
		}
		if s := until(t, portOf(listener), sockdiag.Listen, "listener", anyone); s.RQueue != 1 || s.WQueue == 0 {
			t.Errorf("accept queue %d of %d, want 1", s.RQueue, s.WQueue)
		}
	})
}

func TestHalfOpenConnectionIsSynRecv(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "127.0.0.1:0")
		halfOpen(t, portOf(listener))
		if s := until(t, portOf(listener), sockdiag.SynRecv, "half open", anyone); s.HasInfo || s.Remote.Port() == 0 {
			t.Errorf("half open: %+v", s)
		}
	})
}

func TestTimeWaitCarriesNoInfo(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "127.0.0.1:0")
		client, server := connect(t, listener, "127.0.0.1")
		exchange(t, client, server, 1)
		server.Close()
		until(t, portOf(listener), sockdiag.FinWait2, "closed first", anyone)
		client.Close()
		if s := until(t, portOf(listener), sockdiag.TimeWait, "closed", anyone); s.HasInfo || s.Inode != 0 {
			t.Errorf("time wait: %+v", s)
		}
	})
}

// halfOpen leaves an IPv4 connection on the port half open: the client drops the answer to its SYN, whose TTL is 64.
func halfOpen(t *testing.T, port uint16) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MINTTL, 255); err != nil {
		t.Fatal(err)
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
	if !errors.Is(err, unix.EINPROGRESS) {
		t.Fatalf("connect: %v", err)
	}
}
