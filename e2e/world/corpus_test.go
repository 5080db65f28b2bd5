package world_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

var record = flag.Bool("record", false, "write what Envoy's checkers send into the corpus of netns/takeover")

const corpus = "../../netns/takeover/testdata/envoy"

// spoken is something that Envoy says first on a connection: a check where check is set, else a client's request that it
// forwards.
type spoken struct {
	name      string
	check     object
	http2     bool
	transport object
	request   string
}

func spokenByEnvoy() []spoken {
	http1 := object{"http_health_check": object{"host": "*", "path": "/healthz"}}
	http2 := object{"http_health_check": object{"host": "*", "path": "/healthz", "codec_client_type": "HTTP2"}}
	post := object{"http_health_check": object{
		"host": "*", "path": "/healthz", "method": "POST", "send": object{"text": "70696e67"},
	}}
	grpc := object{"grpc_health_check": object{}}
	service := object{"grpc_health_check": object{"authority": "backend", "service_name": "a.Service"}}
	tcp := object{"tcp_health_check": object{"send": object{"text": "00ff"}, "receive": []object{{"text": "ff"}}}}
	const id = "host: backend\r\nx-request-id: 0b5e9a3c-0000-4000-8000-000000000000\r\n"
	get := "GET /healthz?full=1 HTTP/1.1\r\n" + id + "\r\n"
	call := "POST /grpc.health.v1.Health/Check HTTP/1.1\r\n" + id +
		"content-type: application/grpc\r\nte: trailers\r\ncontent-length: 5\r\n\r\n\x00\x00\x00\x00\x00"
	return []spoken{
		{name: "check-http1", check: http1},
		{name: "check-http1-post", check: post},
		{name: "check-http1-proxy-v1", check: http1, transport: proxied("V1")},
		{name: "check-http1-proxy-v2", check: http1, transport: proxied("V2")},
		{name: "check-http2", check: http2, http2: true},
		{name: "check-http2-proxy-v2", check: http2, http2: true, transport: proxied("V2")},
		{name: "check-grpc", check: grpc, http2: true},
		{name: "check-grpc-service", check: service, http2: true},
		{name: "check-grpc-proxy-v1", check: grpc, http2: true, transport: proxied("V1")},
		{name: "tcp-check", check: tcp},
		{name: "tls-check-http1", check: http1, transport: encrypted()},
		{name: "tls-check-grpc", check: grpc, http2: true, transport: encrypted()},
		{name: "request-http1", request: get},
		{name: "request-http1-proxy-v1", request: get, transport: proxied("V1")},
		{name: "request-http1-proxy-v2", request: get, transport: proxied("V2")},
		{name: "request-http2", request: get, http2: true},
		{name: "request-grpc-health", request: call, http2: true},
	}
}

// TestCorpusIsWhatEnvoySends: the takeover's parsers are tested and fuzzed with what Envoy's checkers and its router send
// first on a connection. A newer Envoy that says it otherwise fails here; -record takes its words down.
func TestCorpusIsWhatEnvoySends(t *testing.T) {
	t.Parallel()
	all := spokenByEnvoy()
	heard := make([][]byte, len(all))
	inNamespace(t, func() {
		var backends sync.WaitGroup
		for i := range all {
			ln, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", backendPort+i))
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			backends.Go(func() { heard[i] = firstWords(ln) })
		}
		startEnvoy(t, bootstrap(all))
		for i, s := range all {
			if s.request != "" {
				defer forward(t, i, s).Close()
			}
		}
		backends.Wait()
	})
	for i, s := range all {
		compare(t, filepath.Join(corpus, s.name), heard[i])
	}
}

// inNamespace runs fn on a thread of its own in a new network namespace, which ends with fn and what it opened.
func inNamespace(t *testing.T, fn func()) {
	t.Helper()
	ended := false
	failed := make(chan error)
	go func() {
		defer close(failed)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = netlink.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1}}) // loopback's
		}
		if err != nil {
			failed <- err
			return
		}
		fn()
		ended = true
	}()
	err := <-failed
	switch {
	case errors.Is(err, unix.EPERM):
		t.Skipf("no new network namespace here: %v", err)
	case err != nil:
		t.Fatal(err)
	case !ended:
		t.FailNow() // fn has failed the test on its goroutine; here it ends on the test's own
	}
}

// firstWords accepts one connection, and returns what comes until it is silent.
func firstWords(ln net.Listener) (all []byte) {
	_ = ln.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second))
	c, err := ln.Accept()
	if err != nil {
		return nil
	}
	defer c.Close()
	wait := 5 * time.Second
	for b := make([]byte, 64<<10); ; wait = 300 * time.Millisecond {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		n, err := c.Read(b)
		all = append(all, b[:n]...)
		if err != nil {
			return all
		}
	}
}

// compare compares what was heard with the corpus, but for a ClientHello's 32 random bytes.
func compare(t *testing.T, path string, heard []byte) {
	t.Helper()
	if *record {
		if err := os.WriteFile(path, heard, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{heard, want} {
		if bytes.HasPrefix(b, []byte{22, 3, 1}) && len(b) > 43 {
			clear(b[11:43])
		}
	}
	if len(heard) == 0 || !bytes.Equal(heard, want) {
		t.Errorf("%s:\n%q, not\n%q", filepath.Base(path), heard, want)
	}
}
