package takeover

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"golang.org/x/net/http2"
)

// servesHTTP2 is a peer that speaks HTTP/2 with prior knowledge: 200 for everything, with the request's path.
func servesHTTP2(t *testing.T) {
	t.Helper()
	s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "peer "+r.URL.Path)
	})}
	s.Protocols.SetUnencryptedHTTP2(true)
	ln := bindTo(t, at(peerIP, 9090))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// client2 is a real HTTP/2 client, with prior knowledge.
func client2(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{
		Protocols: new(http.Protocols),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return tryDial(clientIP, appListener.Addr)
		},
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: watchdog}
}

// call asks by POST where there is a body, else by GET.
func call(t *testing.T, c *http.Client, path string, header map[string]string, body []byte) (*http.Response, string) {
	t.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequest(method, "http://"+appListener.Addr.String()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := c.Do(r)
	// A check whose first byte comes late, as on a busy machine, is cut: Envoy, too, asks again.
	for errors.Is(err, syscall.ECONNRESET) && r.GetBody != nil {
		if r.Body, err = r.GetBody(); err == nil {
			response, err = c.Do(r)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// C13 and C33 by HTTP/2 and gRPC: a real client takes the answer to its check, on one connection after the other, while
// requests, and a client's own gRPC health check, are relayed on a kept one.
func TestChecksOfARealHTTP2ClientFailWhileItsRequestsAreRelayed(t *testing.T) {
	inPod(t, func(t *testing.T) {
		servesHTTP2(t)
		w := run(t, Options{Targets: toPeer, HealthPaths: []string{"/ready", grpcPath}}, nil)
		w.take(appListener)
		user, checks := client2(t), client2(t)
		const grpc = "application/grpc"
		for range 10 {
			for path, header := range map[string]map[string]string{"/healthz": {"User-Agent": checker}, "/ready": nil} {
				r, body := call(t, checks, path, header, nil)
				if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get(immediateFail) != "1" || body != "" {
					t.Errorf("%s: %s %v %q", path, r.Status, r.Header, body)
				}
				w.await(CheckFailed)
			}
			message := make([]byte, 5)
			r, body := call(t, checks, grpcPath, map[string]string{"Content-Type": grpc, "Te": "trailers"}, message)
			if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != grpc || r.Header.Get("Grpc-Status") != "14" || body != "" {
				t.Errorf("gRPC: %s %v %q", r.Status, r.Header, body)
			}
			w.await(CheckFailed)
			for _, path := range []string{"/ready", grpcPath} {
				r, body := call(t, user, path, map[string]string{"Content-Type": grpc, "X-Request-Id": "1"}, message)
				if r.StatusCode != http.StatusOK || body != "peer "+path {
					t.Errorf("a user's %s: %s %q", path, r.Status, body)
				}
			}
		}
		if s := w.taker.Stats(); s.Checks < 30 || s.Relayed < 1 || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// The client goes on sending while the answer is on its way, and reads only then.
func TestAnswerToAnHTTP2CheckWithABodyIsNotLostToAReset(t *testing.T) {
	inPod(t, func(t *testing.T) {
		w := covering(t)
		c := dialFrom(t, clientIP, appListener.Addr)
		f := http2.NewFramer(c, c)
		p := headers(1, asks("/healthz", "user-agent", checker))
		p.EndStream = false
		if _, err := c.Write(speak(func(f *http2.Framer) { _ = f.WriteHeaders(p) })); err != nil {
			t.Fatal(err)
		}
		w.await(CheckFailed)
		for i := range 3 {
			if err := f.WriteData(1, i == 2, make([]byte, 16<<10)); err != nil {
				t.Fatal(err)
			}
		}
		failsCheck(t, c)
	})
}

// A client that never closes is let go of: at once where it sends too much, else after a second.
func TestCheckerThatNeverEndsIsLetGoOf(t *testing.T) {
	for name, send := range map[string]func(net.Conn) error{
		"it-is-silent": func(net.Conn) error { return errors.New("enough") },
		"it-sends-on": func(c net.Conn) error {
			_, err := c.Write(make([]byte, 1<<10))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(t *testing.T) {
				w := covering(t)
				c := dialFrom(t, clientIP, appListener.Addr)
				if _, err := c.Write(envoyCheck2()); err != nil {
					t.Fatal(err)
				}
				w.await(CheckFailed)
				for send(c) == nil {
				}
				until(t, "its connection is gone", func() bool {
					w.taker.conns.mu.Lock()
					defer w.taker.conns.mu.Unlock()
					return len(w.taker.conns.open) == 0
				})
			})
		})
	}
}
