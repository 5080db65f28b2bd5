package admin

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// Whoever sends bodies that nobody reads, fills no memory: HTTP/2 has the server say how much it takes.
func TestBodiesOverHTTP2AreBounded(t *testing.T) {
	base, _ := serve(t, newFake(), nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	const initial = 65_535 // of a connection (RFC 9113, 6.9.2), which only grows
	window := uint32(initial)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.WindowUpdateFrame:
			window += f.Increment
		case *http2.SettingsFrame:
			if f.IsAck() {
				if window > maxBody {
					t.Errorf("%d bytes of a connection are taken", window)
				}
				return
			}
			if n, ok := f.Value(http2.SettingInitialWindowSize); !ok || n > maxStreamBody {
				t.Errorf("%d bytes of a stream are taken (%v)", n, ok)
			}
			if n, ok := f.Value(http2.SettingMaxFrameSize); ok && n > maxFrame { // 16 KiB where nothing is said
				t.Errorf("frames of %d bytes are taken", n)
			}
			if n, ok := f.Value(http2.SettingMaxConcurrentStreams); !ok || n > maxStreams {
				t.Errorf("%d streams are taken (%v)", n, ok)
			}
		}
	}
}

// A frame is read as a whole before it is judged, and one of an unknown type has no window: a bigger one ends the connection
// at its head.
func TestFramesAreBounded(t *testing.T) {
	base, _ := serve(t, newFake(), nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(watchdog))
	framer := http2.NewFramer(conn, conn)
	_, _ = conn.Write([]byte(http2.ClientPreface))
	_ = framer.WriteSettings()
	_, _ = conn.Write([]byte{0, maxFrame >> 8, 1, 0xee, 0, 0, 0, 0, 0}) // a byte too much; nothing of it follows
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			if away.ErrCode != http2.ErrCodeFrameSize {
				t.Errorf("ended by %v", away.ErrCode)
			}
			return
		}
	}
}

// closing is a body that tells of its end.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// What comes of an HTTP/2 body after it is closed is dropped, not kept, however long its request waits.
func TestBodyOfAHoldIsDropped(t *testing.T) {
	backend := newFake()
	body := &closing{Reader: strings.NewReader("drain")}
	request := httptest.NewRequest(http.MethodGet, "/hold", body)
	request.ProtoMajor = 2
	h := &handler{backend: backend}
	done := make(chan struct{})
	go func() { defer close(done); h.ServeHTTP(httptest.NewRecorder(), request) }()
	backend.awaitHolds(t, 1)
	if !body.closed {
		t.Error("the body is kept while the hold waits")
	}
	close(backend.released)
	<-done
}

// Answers that nobody reads fill no memory either, and keep no health check and no hold from its answer.
func TestReportsThatWaitAreBounded(t *testing.T) {
	backend := newFake()
	var server *Server
	base, _ := serve(t, backend, func(s *Server) { server = s })
	for range maxReports {
		server.handler.reports <- struct{}{}
	}
	c := client(t, false)
	for path, want := range map[string]int{
		"/status": http.StatusServiceUnavailable, "/metrics": http.StatusServiceUnavailable, "/healthz": http.StatusOK, "/livez": http.StatusOK,
	} {
		if got := get(t, c, base+path); got.code != want {
			t.Errorf("%s: %d, want %d", path, got.code, want)
		}
	}
	<-server.handler.reports
	if got := get(t, c, base+"/status"); got.code != http.StatusOK {
		t.Errorf("with a place free: %d", got.code)
	}
}
