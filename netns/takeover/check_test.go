package takeover

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// web serves HTTP/1.1 as an application's peer does: 200 for everything, with the request's path and what came of its body.
func web(c *net.TCPConn) {
	for r := bufio.NewReader(c); ; {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		text := fmt.Sprintf("peer %s %d", request.URL.Path, len(body))
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s", len(text), text)
	}
}

// say sends the request in one piece and returns the response and its body.
func say(t *testing.T, c net.Conn, request string) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	return hear(t, c)
}

func hear(t *testing.T, c net.Conn) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// covering takes the application's port over for a peer that serves HTTP.
func covering(t *testing.T) *world {
	t.Helper()
	serveAt(t, at(peerIP, 9090), web)
	w := run(t, Options{Targets: toPeer, HealthPaths: []string{"/ready"}}, nil)
	w.take(appListener)
	return w
}

// isFailed checks that a response fails Envoy's health check, and ends its connection cleanly.
func isFailed(t *testing.T, c net.Conn, response *http.Response, body string) {
	t.Helper()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("x-envoy-immediate-health-check-fail") != "1" ||
		!response.Close || body != "" {
		t.Errorf("%s %v %q", response.Status, response.Header, body)
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the answer: %d, %v", n, err)
	}
}

// C13: Envoy's check on a taken port is failed, and requests are relayed meanwhile.
func TestEnvoysCheckIsFailedWhileRequestsAreRelayed(t *testing.T) {
	inPod(t, func(t *testing.T) {
		w := covering(t)
		user := dialFrom(t, clientIP, appListener.Addr)
		for i := range 20 {
			c := dialFrom(t, clientIP, appListener.Addr)
			response, body := say(t, c, envoyCheck)
			isFailed(t, c, response, body)
			if e := w.await(CheckFailed); e.Remote != addrPort(c.LocalAddr()) || e.Listener != appListener || e.Time.IsZero() {
				t.Errorf("event %+v", e)
			}
			want := fmt.Sprintf("peer /%d 0", i)
			request := fmt.Sprintf("GET /%d HTTP/1.1\r\nhost: a\r\nx-request-id: 1\r\n\r\n", i)
			for name, c := range map[string]net.Conn{"new": dialFrom(t, clientIP, appListener.Addr), "kept": user} {
				if response, body := say(t, c, request); response.StatusCode != http.StatusOK || body != want {
					t.Errorf("%s connection: %s %q", name, response.Status, body)
				}
			}
		}
		if s := w.taker.Stats(); s.Checks != 20 || s.Relayed != 21 || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// C33: a user's own GET of a health path is relayed; a check of it is failed.
func TestUsersOwnGetOfAHealthPathIsRelayed(t *testing.T) {
	inPod(t, func(t *testing.T) {
		w := covering(t)
		c := dialFrom(t, clientIP, appListener.Addr)
		if response, body := say(t, c, "GET /ready HTTP/1.1\r\nhost: a\r\nx-request-id: 7\r\n\r\n"); body != "peer /ready 0" {
			t.Errorf("%s %q", response.Status, body)
		}
		c = dialFrom(t, clientIP, appListener.Addr)
		response, body := say(t, c, "GET /ready HTTP/1.1\r\nhost: a\r\nuser-agent: another checker\r\n\r\n")
		isFailed(t, c, response, body)
		w.await(CheckFailed)
	})
}

func TestAnswerToACheckWithABodyIsNotLostToAReset(t *testing.T) {
	inPod(t, func(t *testing.T) {
		w := covering(t)
		c := dialFrom(t, clientIP, appListener.Addr)
		head := "POST /healthz HTTP/1.1\r\nhost: a\r\nuser-agent: Envoy/HC\r\ncontent-length: 40000\r\n\r\n"
		if _, err := io.WriteString(c, head+strings.Repeat("x", 40000)); err != nil {
			t.Fatal(err)
		}
		w.await(CheckFailed) // the takeover has done with the connection, and nothing was read here yet
		response, body := hear(t, c)
		isFailed(t, c, response, body)
	})
}

func TestCheckThatComesInPiecesIsFailed(t *testing.T) {
	inPod(t, func(t *testing.T) {
		w := covering(t)
		c := dialFrom(t, clientIP, appListener.Addr)
		if err := c.SetNoDelay(true); err != nil {
			t.Fatal(err)
		}
		for piece := range strings.SplitAfterSeq(envoyCheck, "\r\n") {
			if _, err := io.WriteString(c, piece); err != nil {
				t.Fatal(err)
			}
		}
		response, body := hear(t, c)
		isFailed(t, c, response, body)
		w.await(CheckFailed)
	})
}

// What is no check, or not yet known to be one, goes to the peer in a bounded time, byte for byte.
func TestWhatIsNoCheckIsRelayedInTime(t *testing.T) {
	cookie := "cookie: " + strings.Repeat("c", maxHead) + "\r\n"
	for name, sent := range map[string]string{
		"bytes-of-no-HTTP":       "\x00\x01\x02",
		"HTTP2":                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"half-a-head":            "GET /ready HTTP/1.1\r\nhost:",
		"a-head-without-its-end": "GET / HTTP/1.1\r\nhost: a\r\n",
		"a-long-head":            "GET /ready HTTP/1.1\r\n" + cookie,
		"nothing":                "",
	} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(t *testing.T) {
				arrived := make(chan string, 1)
				w, client := relayed(t, func(s *net.TCPConn) {
					b := make([]byte, max(1, len(sent)))
					if _, err := io.ReadFull(s, b); err == nil {
						arrived <- string(b)
					}
				})
				if _, err := io.WriteString(client, sent); err != nil {
					t.Fatal(err)
				}
				until(t, "it is relayed", func() bool { return w.taker.Stats().Relayed == 1 })
				if sent != "" && receive(t, arrived) != sent {
					t.Error("other bytes arrive")
				}
			})
		})
	}
}

func TestClientThatResetsBeforeAByteIsNotRelayed(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		w := run(t, Options{Targets: toPeer}, nil)
		w.take(appListener)
		c := dialFrom(t, clientIP, appListener.Addr)
		local, remote := appListener.Addr, addrPort(c.LocalAddr())
		until(t, "it is accepted", func() bool { return w.owns(local, remote) })
		reset(c)
		until(t, "it is over", func() bool {
			w.taker.conns.mu.Lock()
			defer w.taker.conns.mu.Unlock()
			return len(w.taker.conns.open) == 0
		})
		if s := w.taker.Stats(); s.Relayed != 0 || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	})
}
