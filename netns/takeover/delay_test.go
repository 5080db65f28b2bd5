package takeover

import (
	"io"
	"net"
	"testing"
	"time"
)

// How long a connection that has not told what it is waits for its relay: never less than the constants say, and where
// the machine has time for it, hardly more. The quickest of a row shows that.
func TestUndecidedConnectionsAreRelayedAfterTheirTime(t *testing.T) {
	for name, c := range map[string]struct {
		sent string
		drip string // sent again and again
		want time.Duration
	}{
		"the-server-speaks-first":    {want: firstByte},
		"half-an-HTTP-1-head":        {sent: "GET /ready HTTP/1.1\r\nhost:", want: firstByte},
		"half-a-preface":             {sent: preface[:20], want: firstByte},
		"a-preface-and-half-a-frame": {sent: string(envoyCheck2()[:60]), want: firstByte},
		"half-a-PROXY-header":        {sent: "PROXY TCP4 1.2.", want: firstByte},
		"a-head-that-drips":          {sent: "GET /ready HTTP/1.1\r\na: ", drip: "b", want: wholeHead},
		"bytes-of-no-HTTP":           {sent: "\x00"},
		"TLS":                        {sent: "\x16\x03\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(t *testing.T) {
				serveAt(t, at(peerIP, 9090), func(c *net.TCPConn) {
					_, _ = io.WriteString(c, "220 ready\r\n")
					_, _ = io.Copy(io.Discard, c)
				})
				w := run(t, Options{Targets: toPeer}, nil)
				w.take(appListener)
				quickest := time.Hour
				for range 10 {
					quickest = min(quickest, greeted(t, c.sent, c.drip))
				}
				if quickest < c.want || quickest > c.want+firstByte {
					t.Errorf("greeted after %v at the soonest, not %v", quickest, c.want)
				}
			})
		})
	}
}

// greeted connects and sends, and returns when the server's greeting has come.
func greeted(t *testing.T, sent, drip string) time.Duration {
	t.Helper()
	start := time.Now()
	c := dialFrom(t, clientIP, appListener.Addr)
	defer c.Close()
	if _, err := io.WriteString(c, sent); err != nil {
		t.Fatal(err)
	}
	come := make(chan bool, 1)
	go func() { come <- firstRead(c, make([]byte, 11)) }()
	tick := time.NewTicker(firstByte / 5)
	defer tick.Stop()
	for {
		select {
		case ok := <-come:
			if !ok {
				t.Fatal("no greeting")
			}
			return time.Since(start)
		case <-tick.C:
			_, _ = io.WriteString(c, drip)
		}
	}
}
