package admin

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// tlsClient speaks one protocol in TLS. It does not ask whose certificate it is.
func tlsClient(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: watchdog}
}

// Envoy's checks use its cluster's transport socket; hooks and probes speak plain HTTP. One port takes both.
func TestOnePortSpeaksTLSAndCleartext(t *testing.T) {
	backend := newFake()
	var log lines
	base := serveTLS(t, backend, newSecret(t, newPair(t, 1)), &log)
	secure := strings.Replace(base, "http", "https", 1)
	for _, test := range []struct {
		name string
		c    *http.Client
		base string
		http int
	}{
		{"HTTP/1.1", client(t, false), base, 1},
		{"HTTP/2", client(t, true), base, 2},
		{"HTTP/1.1 in TLS", tlsClient(t, false), secure, 1},
		{"HTTP/2 in TLS", tlsClient(t, true), secure, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 2 {
				if r := get(t, test.c, test.base+"/healthz"); r.code != 200 || r.proto != test.http {
					t.Errorf("%+v", r)
				}
			}
			if test.http == 2 {
				wantCall(t, test.c, test.base, callCheck, request(""), serving, "0")
			}
		})
	}
	h := holdOn(t, client(t, false), base)
	tlsHold := holdOn(t, tlsClient(t, false), secure)
	backend.awaitHolds(t, 2)
	close(backend.released)
	if one, two := h.code(t), tlsHold.code(t); one != 200 || two != 200 {
		t.Errorf("the holds were answered %d and %d", one, two)
	}
}

// Whoever connects and is silent, before the first byte or within the handshake, keeps nobody waiting, and is sent away.
func TestSilentClientsHoldNobodyUp(t *testing.T) {
	for _, timeout := range []time.Duration{readTimeout, 50 * time.Millisecond} {
		var log lines
		certificate := newSecret(t, newPair(t, 1)).load(&log)
		base, _ := serve(t, newFake(), func(s *Server) {
			s.read = timeout
			s.listener.Listener = newEither(s.listener.Listener, certificate)
		})
		var silent []net.Conn
		for _, bytes := range []string{"", "\x16", "\x16\x03\x01\x02\x00\x01", "G"} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, bytes)
			silent = append(silent, conn)
		}
		if timeout == readTimeout { // a request gets through while they are silent; the short one may send it away, too
			if r := get(t, client(t, false), base+"/healthz"); r.code != 200 {
				t.Errorf("got %+v", r)
			}
			if r := get(t, tlsClient(t, false), strings.Replace(base, "http", "https", 1)+"/healthz"); r.code != 200 {
				t.Errorf("got %+v", r)
			}
			continue
		}
		for i, conn := range silent {
			_ = conn.SetDeadline(time.Now().Add(watchdog))
			if answer, err := io.ReadAll(conn); err != nil || bytes.Contains(answer, []byte("200")) {
				t.Errorf("client %d: %q, %v", i, answer, err)
			}
		}
	}
}

// What begins as TLS and is none gets no answer in cleartext, and is not served.
func TestBrokenHandshakesAreNotServed(t *testing.T) {
	backend := newFake()
	var log lines
	base := serveTLS(t, backend, newSecret(t, newPair(t, 1)), &log)
	for _, bytes := range []string{
		"\x16GET /healthz HTTP/1.1\r\nHost: pod\r\n\r\n",
		"\x16\x03\x01\x00\x05hello\r\n\r\n",
		"\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16),
		"\x16\x03\x01\x00\x00",
	} {
		if line := raw(t, base, bytes); strings.Contains(line, "HTTP") {
			t.Errorf("%.20q was answered %q", bytes, line)
		}
	}
	unchanged(t, backend)
}
