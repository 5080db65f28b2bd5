package sockdiag_test

import (
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/netns/sockdiag"
)

func open(t testing.TB) *sockdiag.Dumper {
	t.Helper()
	dumper, err := sockdiag.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dumper.Close() })
	return dumper
}

func dump(t testing.TB, dumper *sockdiag.Dumper, query sockdiag.Query) []sockdiag.Socket {
	t.Helper()
	var all []sockdiag.Socket
	err := dumper.Dump(query, func(s *sockdiag.Socket) bool {
		all = append(all, *s)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// find returns the only socket in a state.
func find(t testing.TB, all []sockdiag.Socket, state sockdiag.State) sockdiag.Socket {
	t.Helper()
	var found []sockdiag.Socket
	for _, s := range all {
		if s.State == state {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d sockets in state %d, want 1: %+v", len(found), state, all)
	}
	return found[0]
}

func listen(t testing.TB, address string) *net.TCPListener {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.(*net.TCPListener)
}

func hostOf(listener *net.TCPListener) string { return listener.Addr().(*net.TCPAddr).IP.String() }

func portOf(listener *net.TCPListener) uint16 {
	return listener.Addr().(*net.TCPAddr).AddrPort().Port()
}

// dial connects to the listener's port at host.
func dial(t testing.TB, listener *net.TCPListener, host string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(int(portOf(listener)))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

func connect(t testing.TB, listener *net.TCPListener, host string) (client, server *net.TCPConn) {
	t.Helper()
	client = dial(t, listener, host)
	server, err := listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

// exchange sends n bytes and reads them at the other end.
func exchange(t testing.TB, from, to net.Conn, n int) {
	t.Helper()
	to.SetReadDeadline(time.Now().Add(watchdog))
	if _, err := from.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(to, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

// refused dials a port that nobody listens on.
func refused(t testing.TB, port uint16) {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if !errors.Is(err, unix.ECONNREFUSED) {
		t.Fatalf("connection %v, error %v, want it refused", conn, err)
	}
}
