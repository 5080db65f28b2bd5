package sockdiag_test

import (
	"net"
	"net/netip"
	"testing"

	"lameduck/netns/netnstest"
	"lameduck/netns/sockdiag"
)

func TestDumpTellsAllWithoutPrivilege(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		listener := listen(t, "[::]:0")
		client, server := connect(t, listener, "127.0.0.1")
		exchange(t, client, server, 5)
		exchange(t, server, client, 3)

		dumper := open(t)
		found := dump(t, dumper, sockdiag.Query{Ports: []uint16{portOf(listener)}})
		if len(found) != 2 {
			t.Fatalf("%d sockets, want the listener and its connection: %+v", len(found), found)
		}
		conn := find(t, found, sockdiag.Established)
		if want := client.LocalAddr().(*net.TCPAddr).AddrPort(); conn.Remote != want {
			t.Errorf("remote %s, want %s unmapped", conn.Remote, want)
		}
		if !conn.HasInfo || conn.Info.BytesReceived != 5 || conn.Info.DataSegsIn != 1 || conn.Info.DataSegsOut != 1 {
			t.Errorf("info of 5 bytes in and 3 out: %+v", conn.Info)
		}
		if l := find(t, found, sockdiag.Listen); l.Local != netip.AddrPortFrom(netip.IPv6Unspecified(), portOf(listener)) {
			t.Errorf("listener at %s", l.Local)
		}
	})
}
