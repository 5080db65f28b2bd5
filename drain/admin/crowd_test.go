package admin

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// from is a client with an address of its own, which keeps its connection.
func from(t *testing.T, address string) *http.Client {
	t.Helper()
	c := client(t, false)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, to)
	}
	return c
}

// flood keeps so many connections from one address open, each of which sends this and no more, and opens another for each
// that is closed. It returns when it has had them all once; stop ends it.
func flood(t *testing.T, base, address, send string, connections int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all, full sync.WaitGroup
	full.Add(connections)
	for range connections {
		all.Go(func() {
			var once sync.Once
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
			for ctx.Err() == nil {
				conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(base, "http://"))
				once.Do(full.Done)
				if err != nil {
					continue
				}
				ends := context.AfterFunc(ctx, func() { _ = conn.Close() })
				_, _ = io.WriteString(conn, send)
				_, _ = io.Copy(io.Discard, conn)
				ends()
				_ = conn.Close()
			}
		})
	}
	full.Wait()
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(stop)
	return stop
}

// Envoy's checks are answered in their time, and on the connections that Envoy keeps, whatever another pod does to the port.
func TestCrowdFromElsewhereDoesNotKeepChecksWaiting(t *testing.T) {
	for name, send := range map[string]string{
		"silent":             "",
		"a slow head":        "GET /healthz HTTP/1.1\r\nHost:",
		"a slow body":        "POST /hold HTTP/1.1\r\nHost: pod\r\nContent-Length: 9\r\n\r\n",
		"kept alive":         "GET /healthz HTTP/1.1\r\nHost: pod\r\n\r\n",
		"HTTP/2, no request": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			base, _ := serve(t, newFake(), func(s *Server) { s.listener = limit(s.listener.Listener, 16, 4) })
			kept := from(t, "127.0.0.2")
			if r := get(t, kept, base+"/healthz"); r.code != 200 {
				t.Fatalf("got %+v", r)
			}
			stop := flood(t, base, "127.0.0.3", send, 40)
			for n := range 20 {
				for what, c := range map[string]*http.Client{"kept": kept, "new": from(t, "127.0.0.2")} {
					begun := time.Now()
					r, err := c.Get(base + "/healthz")
					if took := time.Since(begun); err != nil || r.StatusCode != 200 || r.Close || took > time.Second {
						t.Fatalf("check %d, %s connection: %+v, %v, after %v", n, what, r, err, took)
					}
					_, _ = io.Copy(io.Discard, r.Body)
					_ = r.Body.Close()
					if what == "new" {
						c.CloseIdleConnections()
					}
				}
			}
			stop()
		})
	}
}

// Where one address has all places by itself, as an Envoy of very many clusters may, who comes waits for one that is free, and
// displaces none that has come just now.
func TestManyCheckersOfOneEnvoyAreAllAnswered(t *testing.T) {
	base, _ := serve(t, newFake(), func(s *Server) {
		s.listener = limit(s.listener.Listener, 16, 4)
		s.listener.patience = watchdog // a busy machine decides nothing here
	})
	errs := make(chan error, 64)
	for range cap(errs) {
		c := from(t, "127.0.0.2")
		go func() {
			r, err := fetch(c, base+"/healthz")
			if err == nil && r.code != 200 {
				err = fmt.Errorf("answered %d", r.code)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
