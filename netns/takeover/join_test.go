package takeover

import (
	"net"
	"testing"
)

// pipeOf returns the two ends of a connection.
func pipeOf(t *testing.T) (ours, theirs *net.TCPConn) {
	t.Helper()
	ln := bindTo(t, at(peerIP, 0))
	theirs = dialFrom(t, clientIP, addrPort(ln.Addr()))
	ours, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	return ours, theirs
}

// A server that resets before its first byte may be covering itself: that alone makes it suspect. For each that resets, its
// client is reset.
func TestOnlyAResetBeforeTheFirstByteMakesAPeerSuspect(t *testing.T) {
	for name, c := range map[string]struct {
		end            func(client, server *net.TCPConn)
		suspect, reset bool
	}{
		"the-server-resets": {func(_, server *net.TCPConn) { reset(server) }, true, true},
		"it-resets-after-the-client-has-sent": {func(client, server *net.TCPConn) {
			_, _ = client.Write([]byte{0})
			_ = firstRead(server, make([]byte, 1))
			reset(server)
		}, true, true},
		"it-resets-after-a-byte": {func(client, server *net.TCPConn) {
			_, _ = server.Write([]byte{0})
			_ = firstRead(client, make([]byte, 1))
			reset(server)
		}, false, true},
		"the-client-resets": {func(client, _ *net.TCPConn) { reset(client) }, false, false},
		"both-close":        {func(client, server *net.TCPConn) { client.Close(); server.Close() }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(t *testing.T) {
				ourClient, client := pipeOf(t)
				ourServer, server := pipeOf(t)
				ended := make(chan joined, 1)
				go func() { ended <- join(ourClient, ourServer, nil) }()
				c.end(client, server)
				if got := receive(t, ended); got.shunned != c.suspect || got.reset != c.reset {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}
