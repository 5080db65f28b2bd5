package netns_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/netns"
	"lameduck/netns/netnstest"
	"lameduck/netns/sockdiag"
)

const watchdog = 10 * time.Second

func openCounters(t testing.TB) *netns.CounterReader {
	t.Helper()
	reader, err := netns.OpenCounters()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	return reader
}

func read(t testing.TB, reader *netns.CounterReader) netns.Counters {
	t.Helper()
	counters, err := reader.Read()
	if err != nil {
		t.Fatal(err)
	}
	return counters
}

// pair is a connection whose listener has gone.
func pair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client = dial(t, listener.Addr())
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	server = conn.(*net.TCPConn)
	server.SetReadDeadline(time.Now().Add(watchdog))
	return client, server
}

func dial(t testing.TB, to net.Addr) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetReadDeadline(time.Now().Add(watchdog))
	return conn.(*net.TCPConn)
}

func send(t testing.TB, conn *net.TCPConn) {
	t.Helper()
	if _, err := conn.Write([]byte{'.'}); err != nil {
		t.Fatal(err)
	}
}

// readEnd reads until the connection ends, which it must have the way that is wanted.
func readEnd(t testing.TB, conn *net.TCPConn, want error) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	if !errors.Is(err, want) {
		t.Fatalf("end of connection: %v, want %v", err, want)
	}
}

// A SYN to a closed port of a living namespace is refused at once; OutRsts counts each, and InSegs moves.
func TestRefusedSYNsAreCountedExactly(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		reader := openCounters(t)
		before := read(t, reader)
		const count = 50
		for range count {
			for _, address := range []string{"127.0.0.1:1", "[::1]:1"} {
				if _, err := net.Dial("tcp", address); !errors.Is(err, unix.ECONNREFUSED) {
					t.Fatalf("%s: %v", address, err)
				}
			}
		}
		after := read(t, reader)
		if n := after.OutRsts - before.OutRsts; n != 2*count {
			t.Errorf("OutRsts grew by %d, want %d", n, 2*count)
		}
		if n := after.Refused(before); n != 2*count {
			t.Errorf("%d refused, want %d", n, 2*count)
		}
		if after.InSegs < before.InSegs+2*count {
			t.Errorf("InSegs went from %d to %d", before.InSegs, after.InSegs)
		}
	})
}

// awaitResets reads the counters once there have been so many resets.
func awaitResets(t *testing.T, reader *netns.CounterReader, resets uint64) netns.Counters {
	t.Helper()
	timeout, tick := time.After(watchdog), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		counters := read(t, reader)
		if counters.OutRsts >= resets {
			return counters
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("%d resets, want %d", counters.OutRsts, resets)
		}
	}
}

// awaitFinWait2 waits for the acknowledgement of the end of a closed connection.
func awaitFinWait2(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	dumper, err := sockdiag.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer dumper.Close()
	query := sockdiag.Query{
		States: sockdiag.Of(sockdiag.FinWait2),
		Ports:  []uint16{conn.LocalAddr().(*net.TCPAddr).AddrPort().Port()},
	}
	timeout, tick := time.After(watchdog), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		found := false
		if err := dumper.Dump(query, func(*sockdiag.Socket) bool { found = true; return false }); err != nil {
			t.Fatal(err)
		}
		if found {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("the end is not acknowledged")
		}
	}
}

// What resets connections beside a refused SYN, and whether Refused takes it for one.
func TestRefusedAmidOtherResets(t *testing.T) {
	for _, c := range []struct {
		name    string
		resets  uint64
		refused uint64
		happen  func(t *testing.T)
	}{
		{"closed in order", 0, 0, func(t *testing.T) {
			client, server := pair(t)
			server.Close()
			readEnd(t, client, io.EOF)
			client.Close()
		}},
		{"closed with data unread", 1, 0, func(t *testing.T) {
			client, server := pair(t)
			send(t, client)
			server.Close()
			readEnd(t, client, unix.ECONNRESET)
		}},
		{"data for a connection whose end is not acknowledged", 1, 0, func(t *testing.T) {
			client, server := pair(t)
			server.Close()
			send(t, client)
		}},
		{"closed by linger of 0", 1, 0, func(t *testing.T) {
			client, server := pair(t)
			if err := server.SetLinger(0); err != nil {
				t.Fatal(err)
			}
			server.Close()
			readEnd(t, client, unix.ECONNRESET)
		}},
		{"listener closed on an unaccepted connection", 1, 1, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			client := dial(t, listener.Addr())
			listener.Close()
			readEnd(t, client, unix.ECONNRESET)
		}},
		{"data for a connection whose end is acknowledged", 1, 1, func(t *testing.T) {
			client, server := pair(t)
			server.Close()
			awaitFinWait2(t, server)
			send(t, client)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
				reader := openCounters(t)
				before := read(t, reader)
				c.happen(t)
				after := awaitResets(t, reader, before.OutRsts+c.resets)
				if n := after.OutRsts - before.OutRsts; n != c.resets {
					t.Errorf("%d resets, want %d", n, c.resets)
				}
				if n := after.Refused(before); n != c.refused {
					t.Errorf("%d refused, want %d", n, c.refused)
				}
			})
		})
	}
}

func TestCountersAreTheNamespacesOwn(t *testing.T) {
	here, there := netnstest.New(t), netnstest.New(t)
	var reader *netns.CounterReader
	here.Do(t, func() { reader = openCounters(t) })
	before := read(t, reader) // on another thread: the reader stays
	refuse := func() {
		if _, err := net.Dial("tcp", "127.0.0.1:1"); !errors.Is(err, unix.ECONNREFUSED) {
			t.Fatalf("dial: %v", err)
		}
	}
	there.Do(t, refuse)
	if after := read(t, reader); after != before {
		t.Errorf("moved by another namespace: %+v, then %+v", before, after)
	}
	here.Do(t, refuse)
	if n := read(t, reader).Refused(before); n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
}

func TestReadingCountersAllocatesNothing(t *testing.T) {
	reader := openCounters(t)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := reader.Read(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkReadCounters(b *testing.B) {
	reader := openCounters(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reader.Read(); err != nil {
			b.Fatal(err)
		}
	}
}
