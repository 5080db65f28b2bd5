package admin

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// C23: whatever comes over HTTP, from whomever, nothing changes. The fake hears of every call that could change something.
func TestNoHTTPRequestChangesAnything(t *testing.T) {
	backend := newFake()
	close(backend.released) // so that a GET of /hold ends
	base, stop := serve(t, backend, nil)

	walked := 0
	for _, method := range methods() {
		for _, path := range paths() {
			for name, more := range oddities() {
				request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n%s", method, path, more)
				code := statusOf(t, base, request)
				if code == "200" && (method != "GET" || !isAdminPath(path)) {
					t.Errorf("%s %s (%s) was answered 200", method, path, name)
				}
				if method != "GET" && code != "405" && code != "400" && code != "" {
					t.Errorf("%s %s (%s) was answered %s", method, path, name, code)
				}
				walked++
			}
		}
	}
	if walked < 1000 {
		t.Errorf("walked %d requests only", walked)
	}
	stop()
	unchanged(t, backend)
}

// The same over HTTP/2, where method and path are free-form header fields. gRPC's calls are POST and are answered; they
// change nothing.
func TestNoHTTP2RequestChangesAnything(t *testing.T) {
	backend := newFake()
	close(backend.released)
	base, stop := serve(t, backend, nil)
	c := client(t, true)
	answered, called := 0, 0
	for _, method := range methods() {
		for _, path := range paths() {
			for _, kind := range []string{"", "application/json", "application/grpc-web", "application/grpc", "application/grpc+proto;x"} {
				request, err := http.NewRequestWithContext(t.Context(), method, base, strings.NewReader("drain\n"))
				if err != nil {
					continue // a method that no client of Go's sends
				}
				request.URL.Opaque = path
				request.Header.Set("Content-Type", kind)
				r, err := c.Do(request)
				if err != nil {
					continue // refused by the client or the server: nothing was served
				}
				if path != callWatch {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				_ = r.Body.Close()
				answered++
				call := method == "POST" && (path == callCheck || path == callWatch || path == callList) &&
					(kind == "application/grpc" || kind == "application/grpc+proto;x")
				if call {
					called++
				}
				if r.StatusCode == 200 && !call && (method != "GET" || !isAdminPath(path)) || r.StatusCode != 200 && call ||
					r.StatusCode != 405 && !call && method != "GET" {
					t.Errorf("%s %s (%s) was answered %d", method, path, kind, r.StatusCode)
				}
			}
		}
	}
	if called != 6 {
		t.Errorf("%d calls", called)
	}
	if answered < 100 {
		t.Errorf("%d requests only were answered", answered)
	}
	stop()
	unchanged(t, backend)
}

// unchanged tells that nobody has triggered, and that no hold is left. Checks are heard of, and change nothing.
func unchanged(t *testing.T, backend *fake) {
	t.Helper()
	backend.mu.Lock()
	defer backend.mu.Unlock()
	if len(backend.triggers) > 0 || backend.draining || backend.waiting > 0 {
		t.Errorf("something has changed: triggers %v, draining %v, %d holds", backend.triggers, backend.draining, backend.waiting)
	}
	for _, c := range backend.checks {
		if c.failed {
			t.Errorf("a check has failed: %v", c)
		}
	}
}

func methods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PRI", "DRAIN", "get", "PURGE"}
}

func paths() []string {
	return []string{
		"/healthz", "/livez", "/hold", "/status", "/metrics",
		"/", "*", "/drain", "/hold/", "//hold", "/./hold", "/x/../hold", "/%68old", "/hold;drain", "/hold?drain=1",
		"/quitquitquit", "/healthcheck/fail", "/status?phase=draining", "http://pod/drain", "http://pod/hold", "pod:8420", "",
		callCheck, callWatch, callList, "/grpc.health.v1.Health/Set", callCheck + "/", callCheck + "?service=x", "/grpc.health.v1.Health/%43heck",
	}
}

// isAdminPath tells whether the server may take the path for one of its own, once the request line is parsed.
func isAdminPath(path string) bool {
	path = strings.TrimPrefix(path, "http://pod")
	path, _, _ = strings.Cut(path, "?")
	switch path {
	case "/healthz", "/livez", "/hold", "/status", "/metrics", "/%68old":
		return true
	}
	return false
}

// oddities are the rest of a request: header fields, an empty line, a body.
func oddities() map[string]string {
	return map[string]string{
		"plain":               "\r\n",
		"method override":     "X-HTTP-Method-Override: POST\r\nX-Method: DRAIN\r\n\r\n",
		"body":                "Content-Length: 6\r\n\r\ndrain\n",
		"chunked body":        "Transfer-Encoding: chunked\r\n\r\n6\r\ndrain\n\r\n0\r\n\r\n",
		"two lengths":         "Content-Length: 6\r\nContent-Length: 7\r\n\r\ndrain\n",
		"length and chunks":   "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\ndrain\n",
		"upgrade":             "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"expectation":         "Expect: 100-continue\r\nContent-Length: 6\r\n\r\n",
		"forwarded from home": "X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\nX-Envoy-Internal: true\r\n\r\n",
	}
}

// statusOf sends a request and returns the status code of its answer, or nothing where the server has just closed.
func statusOf(t *testing.T, base, request string) string {
	t.Helper()
	fields := strings.Fields(raw(t, base, request))
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "HTTP/1.") {
		return ""
	}
	return fields[1]
}

func TestWhatIsNoHTTPIsNotServed(t *testing.T) {
	backend := newFake()
	base, stop := serve(t, backend, func(s *Server) { s.read = 50 * time.Millisecond })
	for _, bytes := range []string{
		"drain\n", "hold\n", "status\n", "\r\n\r\ndrain\r\n\r\n", "GET /healthz\r\n\r\n", "\x16\x03\x01\x00\x05hello\r\n\r\n",
		"GET /healthz HTTP/1.1\r\n\r\n", "GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n",
	} {
		if code := statusOf(t, base, bytes); code != "" && code[0] < '4' {
			t.Errorf("%q was answered %s", bytes, code)
		}
	}
	stop()
	unchanged(t, backend)
}

func TestHeadersAreBounded(t *testing.T) {
	base, _ := serve(t, newFake(), nil)
	// net/http adds 4 KiB of slack to MaxHeaderBytes.
	long := strings.Repeat("x", maxHeaderBytes+8<<10)
	if code := statusOf(t, base, "GET /healthz HTTP/1.1\r\nHost: pod\r\nX: "+long+"\r\n\r\n"); code != "431" {
		t.Errorf("answered %q", code)
	}
}

// A body changes no answer, and its connection ends: so what follows on it can never be taken for a request.
func TestABodyIsNotReadAndEndsTheConnection(t *testing.T) {
	base, _ := serve(t, newFake(), func(s *Server) { s.read = 50 * time.Millisecond })
	for name, body := range map[string]string{
		"short":        "Content-Length: 6\r\n\r\ndrain\n",
		"that is late": "Content-Length: 1000000\r\n\r\n",
		"in chunks":    "Transfer-Encoding: chunked\r\n\r\n6\r\ndrain\n\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(watchdog))
			_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: pod\r\n"+body)
			reader := bufio.NewReader(conn)
			r, err := http.ReadResponse(reader, nil)
			if err != nil || r.StatusCode != 200 || !r.Close {
				t.Fatalf("%v, %+v", err, r)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if rest, err := io.ReadAll(reader); err != nil || len(rest) > 0 {
				t.Errorf("the connection does not just end: %q, %v", rest, err)
			}
		})
	}
}

// A client that sends its request slower than readTimeout, or nothing at all, is sent away.
func TestSlowRequestsAreSentAway(t *testing.T) {
	base, _ := serve(t, newFake(), func(s *Server) { s.read = 50 * time.Millisecond })
	for _, bytes := range []string{"", "GET /heal", "GET /healthz HTTP/1.1\r\nHost: pod\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(watchdog))
		_, _ = io.WriteString(conn, bytes)
		if answer, err := io.ReadAll(conn); err != nil || strings.Contains(string(answer), " 200 ") {
			t.Errorf("%q: %q, %v", bytes, answer, err)
		}
		_ = conn.Close()
	}
}
