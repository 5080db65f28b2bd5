package admin

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Connections that end while a request is under way leave nothing behind, however many they are.
func TestConnectionsThatEndWithinARequestLeaveNothing(t *testing.T) {
	const connections, each = 1000, 3 << 10 // net/http kept 8 KiB of each for its idle timeout
	backend := newFake()
	base, _ := serve(t, backend, nil)
	before := heap()
	for range connections {
		end := hangingHold(t, base)
		backend.awaitHolds(t, 1)
		end()
		backend.awaitHolds(t, 0)
	}
	for deadline := time.Now().Add(watchdog); ; {
		now := heap()
		grown := now - min(before, now)
		if grown < connections*each {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are kept of each connection", grown/connections)
		}
	}
}

// hangingHold begins a hold over HTTP/2; end closes its connection.
func hangingHold(t *testing.T, base string) (end func()) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "pod"}, {":path", "/hold"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer takes all
	}
	framer := http2.NewFramer(conn, conn)
	_, err = io.WriteString(conn, http2.ClientPreface)
	err = errors.Join(err, framer.WriteSettings(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}))
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = conn.Close() }
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
