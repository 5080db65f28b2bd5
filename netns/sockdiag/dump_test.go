package sockdiag_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"lameduck/netns/netnstest"
	"lameduck/netns/sockdiag"
)

func TestDumpTellsAllWithoutPrivilege(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "[::]:0")
		client, server := connect(t, listener, "127.0.0.1")
		exchange(t, client, server, 5)
		exchange(t, server, client, 3)

		found := dump(t, open(t), sockdiag.Query{Ports: []uint16{portOf(listener)}})
		if len(found) != 2 {
			t.Fatalf("%d sockets, want the listener and its connection: %+v", len(found), found)
		}
		conn := find(t, found, sockdiag.Established)
		if want := client.LocalAddr().(*net.TCPAddr).AddrPort(); conn.Remote != want || conn.Family != unix.AF_INET6 {
			t.Errorf("remote %s of family %d, want the IPv6 socket's, %s unmapped", conn.Remote, conn.Family, want)
		}
		if conn.Cookie == 0 || conn.Inode == 0 {
			t.Errorf("identity: %+v", conn)
		}
		want := sockdiag.Info{BytesReceived: 5, BytesAcked: 3, DataSegsIn: 1, DataSegsOut: 1}
		want.LastDataSent, want.LastDataRecv, want.RoundTrip = conn.Info.LastDataSent, conn.Info.LastDataRecv, conn.Info.RoundTrip
		if !conn.HasInfo || conn.Info != want || conn.Info.RoundTrip <= 0 {
			t.Errorf("after 5 bytes in and 3 out: %+v", conn.Info)
		}
		if l := find(t, found, sockdiag.Listen); l.Local != netip.AddrPortFrom(netip.IPv6Unspecified(), portOf(listener)) || l.V6Only {
			t.Errorf("listener: %+v", l)
		}
	})
}

func TestListenersTellV6Only(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		for network, want := range map[string]bool{"tcp": false, "tcp6": true} {
			listener, err := net.Listen(network, "[::]:0")
			if err != nil {
				t.Fatal(err)
			}
			found := dump(t, open(t), sockdiag.Query{States: sockdiag.Of(sockdiag.Listen)})
			if l := find(t, found, sockdiag.Listen); l.V6Only != want {
				t.Errorf("%s: V6Only %v", network, l.V6Only)
			}
			listener.Close()
		}
	})
}

func TestKernelFiltersPortsAndStates(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		var ports []uint16
		for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0", "127.0.0.1:0"} {
			listener := listen(t, address)
			ports = append(ports, portOf(listener))
			connect(t, listener, hostOf(listener))
		}
		many := make([]uint16, 60) // none of them is used here
		for i := range many {
			many[i] = uint16(i + 1)
		}
		dumper := open(t)
		for name, c := range map[string]struct {
			query sockdiag.Query
			want  []uint16
		}{
			"listeners":           {sockdiag.Query{States: sockdiag.Of(sockdiag.Listen)}, ports},
			"one port":            {sockdiag.Query{Ports: ports[1:2]}, []uint16{ports[1], ports[1]}},
			"two ports, listener": {sockdiag.Query{States: sockdiag.Of(sockdiag.Listen), Ports: ports[1:3]}, ports[1:3]},
			"connections":         {sockdiag.Query{States: sockdiag.Of(sockdiag.Established), Ports: ports}, ports},
			"last of many":        {sockdiag.Query{Ports: append(many, ports[3])}, []uint16{ports[3], ports[3]}},
			"none of many":        {sockdiag.Query{Ports: many}, nil},
		} {
			var got []uint16
			for _, s := range dump(t, dumper, c.query) {
				got = append(got, s.Local.Port())
			}
			slices.Sort(got)
			if want := slices.Sorted(slices.Values(c.want)); !slices.Equal(got, want) {
				t.Errorf("%s: ports %v, want %v", name, got, want)
			}
		}
	})
}

func TestDumpStopsWhenToldAndStaysUsable(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		for range 300 { // more than one answer holds
			listen(t, "127.0.0.1:0")
			listen(t, "[::1]:0")
		}
		dumper := open(t)
		count := 0
		for range 3 {
			count = 0
			if err := dumper.Dump(sockdiag.Query{}, func(*sockdiag.Socket) bool { count++; return count < 5 }); err != nil {
				t.Fatal(err)
			}
			if count != 5 {
				t.Fatalf("%d calls, want 5", count)
			}
		}
		if all := dump(t, dumper, sockdiag.Query{}); len(all) != 600 {
			t.Errorf("%d sockets in the dump after, want 600", len(all))
		}
	})
}

func TestDumpAllocatesNothingPerSocket(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		dumper := open(t)
		allocs := func() float64 {
			return testing.AllocsPerRun(20, func() {
				if err := dumper.Dump(sockdiag.Query{Ports: []uint16{1, 2}}, func(*sockdiag.Socket) bool { return true }); err != nil {
					t.Fatal(err)
				}
				if err := dumper.Dump(sockdiag.Query{}, func(*sockdiag.Socket) bool { return true }); err != nil {
					t.Fatal(err)
				}
			})
		}
		few := allocs()
		for range 300 {
			listen(t, "[::1]:0")
		}
		if many := allocs(); many != few || few > 20 {
			t.Errorf("%v allocations with 300 sockets, %v with none", many, few)
		}
	})
}

func TestSilentKernelEndsTheWait(t *testing.T) {
	dumper := open(t)
	if err := sockdiag.AwaitAnswer(dumper); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}

func TestDumpOfAClosedDumperFails(t *testing.T) {
	dumper := open(t)
	dumper.Close()
	if err := dumper.Dump(sockdiag.Query{}, func(*sockdiag.Socket) bool { return true }); !errors.Is(err, unix.EBADF) {
		t.Errorf("dump on a closed socket: %v", err)
	}
}

func TestProcTellsTheSameSockets(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		v4, v6 := listen(t, "127.0.0.1:0"), listen(t, "[::]:0")
		connect(t, v4, "127.0.0.1")
		client, server := connect(t, v6, "127.0.0.1")
		connect(t, v6, "::1")
		dial(t, v6, "::1") // not accepted
		exchange(t, client, server, 3)
		if _, err := client.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		for name, query := range map[string]sockdiag.Query{
			"all":         {},
			"one port":    {Ports: []uint16{portOf(v6)}},
			"listeners":   {States: sockdiag.Of(sockdiag.Listen)},
			"connections": {States: sockdiag.Of(sockdiag.Established), Ports: []uint16{portOf(v4), portOf(v6)}},
		} {
			want := dump(t, open(t), query)
			for i := range want {
				s := &want[i]
				s.Cookie, s.HasInfo, s.Info, s.V6Only = 0, false, sockdiag.Info{}, false
				if s.State == sockdiag.Listen {
					s.WQueue = 0
				}
			}
			var got []sockdiag.Socket
			err := sockdiag.ProcDump(query, func(s *sockdiag.Socket) bool {
				got = append(got, *s)
				return true
			})
			order := func(a, b sockdiag.Socket) int { return slices.Compare(key(a), key(b)) }
			slices.SortFunc(got, order)
			slices.SortFunc(want, order)
			if err != nil || len(got) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s: %v\n/proc     %+v\nsock_diag %+v", name, err, got, want)
			}
		}
	})
}

func key(s sockdiag.Socket) []string { return []string{s.Local.String(), s.Remote.String()} }
