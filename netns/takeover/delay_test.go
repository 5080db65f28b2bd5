package takeover

import (
	"io"
	"net"
	"testing"
	"time"
)

// How long a connection that has not told what it is waits for its relay: never less than the constants say, and where
// the machine has time for it, hardly more. A try on a busy machine shows nothing, so there may be many.
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
				least := c.want
				if c.drip != "" {
					least = firstByte // where the next drop was late
				}
				took := time.Duration(-1)
				for end := time.Now().Add(watchdog); took < c.want || took > c.want+firstByte; {
					if took = greeted(t, c.sent, c.drip); took < least {
						t.Fatalf("greeted after %v, earlier than %v", took, least)
					}
					if time.Now().After(end) {
						t.Fatalf("greeted after %v, never as soon as after %v", took, c.want)
					}
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
