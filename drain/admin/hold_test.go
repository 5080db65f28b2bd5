package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"
)

// holding is a hold on its way, and its answer.
type holding struct {
	cancel context.CancelFunc
	sent   chan struct{} // closed when the request has left
	answer chan response // closed without one where the hold failed
}

// holdOn sends a hold.
func holdOn(t *testing.T, c *http.Client, base string) holding {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	h := holding{cancel, make(chan struct{}), make(chan response, 1)}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(h.sent) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/hold", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(h.answer)
		r, err := c.Do(request)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		h.answer <- response{code: r.StatusCode, proto: r.ProtoMajor}
	}()
	t.Cleanup(func() { cancel(); <-h.answer })
	return h
}

// code waits for the answer; 0 stands for none.
func (h holding) code(t *testing.T) int {
	t.Helper()
	select {
	case r := <-h.answer:
		return r.code
	case <-time.After(watchdog):
		t.Fatal("the hold does not end")
		return 0
	}
}

// waits tells that no answer has come yet.
func (h holding) waits() bool {
	select {
	case <-h.answer:
		return false
	default:
		return true
	}
}

// C21: the holds of four containers are released together, by either protocol.
func TestHoldsAreReleasedTogether(t *testing.T) {
	backend := newFake()
	base, _ := serve(t, backend, nil)
	one, two := client(t, false), client(t, true)
	holds := []holding{holdOn(t, one, base), holdOn(t, one, base), holdOn(t, two, base), holdOn(t, two, base)}
	backend.awaitHolds(t, 4)
	for _, h := range holds {
		if !h.waits() {
			t.Error("a hold was answered before its release")
		}
	}
	close(backend.released)
	for _, h := range holds {
		if code := h.code(t); code != 200 {
			t.Errorf("a hold was answered %d", code)
		}
	}
}

// A hook that gets anything but 200 is followed by SIGTERM at once, and by a warning event.
func TestHoldIsAnswered200WhenTheServerEnds(t *testing.T) {
	backend := newFake()
	base, stop := serve(t, backend, nil)
	holds := []holding{holdOn(t, client(t, false), base), holdOn(t, client(t, true), base)}
	backend.awaitHolds(t, 2)
	stop()
	for i, h := range holds {
		if code := h.code(t); code != 200 {
			t.Errorf("hold %d was answered %d", i, code)
		}
	}
}

// passTimeouts waits by the server's own clock: it sends away three slow clients, one after another, after a timeout each.
func passTimeouts(t *testing.T, base string) {
	t.Helper()
	for range 3 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(watchdog))
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Fatalf("the slow client was not sent away: %v", err)
		}
		_ = conn.Close()
	}
}

func TestNoTimeoutCutsAHold(t *testing.T) {
	const timeout = 50 * time.Millisecond
	backend := newFake()
	base, _ := serve(t, backend, func(s *Server) { s.read, s.write = timeout, timeout })
	holds := []holding{holdOn(t, client(t, false), base), holdOn(t, client(t, true), base)}
	backend.awaitHolds(t, 2)
	passTimeouts(t, base)
	backend.awaitHolds(t, 2)
	close(backend.released)
	for i, h := range holds {
		if code := h.code(t); code != 200 {
			t.Errorf("hold %d was answered %d", i, code)
		}
	}
}

func TestAClientThatLeavesEndsItsOwnHoldOnly(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		backend := newFake()
		base, _ := serve(t, backend, nil)
		c := client(t, http2)
		leaves, stays := holdOn(t, c, base), holdOn(t, c, base)
		backend.awaitHolds(t, 2)
		leaves.cancel()
		backend.awaitHolds(t, 1)
		close(backend.released)
		if code := stays.code(t); code != 200 {
			t.Errorf("the other hold was answered %d", code)
		}
	}
}

// bounded serves with few places: 4 for connections, and 6 for holds.
func bounded(t *testing.T, backend *fake) string {
	t.Helper()
	base, _ := serve(t, backend, func(s *Server) { s.listener = limit(s.listener.Listener, 4, 6) })
	return base
}

// Holds do not keep health checks out: neither those that give their place back, nor the first ones that cannot.
func TestHoldsLeaveRoomForHealthChecks(t *testing.T) {
	backend := newFake()
	base := bounded(t, backend)
	c := client(t, false)
	for n := 1; n <= 9; n++ { // 6 give their place back, 3 of the 4 places are kept
		holdOn(t, c, base)
		backend.awaitHolds(t, n)
		if code := statusOf(t, base, "GET /healthz HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n"); code != "200" {
			t.Fatalf("with %d holds a health check was answered %s", n, code)
		}
	}
	close(backend.released)
}

// A hold above every bound waits unanswered, which is a hold all the same; and it ends none
// of the others.
func TestAHoldAboveTheBoundStillHolds(t *testing.T) {
	backend := newFake()
	base := bounded(t, backend)
	c := client(t, false)
	var holds []holding
	for n := 1; n <= 10; n++ {
		holds = append(holds, holdOn(t, c, base))
		backend.awaitHolds(t, n)
	}
	for range 2 {
		h := holdOn(t, c, base)
		holds = append(holds, h)
		select {
		case <-h.sent:
		case <-time.After(watchdog):
			t.Fatal("the hold is not sent")
		}
	}
	for i, h := range holds {
		if !h.waits() {
			t.Errorf("hold %d was ended", i+1)
		}
	}
	backend.awaitHolds(t, 10)
	close(backend.released)
	for i, h := range holds {
		if code := h.code(t); code != 200 {
			t.Errorf("hold %d was answered %d", i+1, code)
		}
	}
}

// Idle connections never take the last quarter of the places: there each answer ends its connection.
func TestIdleConnectionsLeaveRoom(t *testing.T) {
	backend := newFake()
	base := bounded(t, backend)
	for n := 1; n <= 8; n++ {
		c := client(t, false) // each keeps its connection, if the server does
		r, err := c.Get(base + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		if r.StatusCode != 200 || r.Close != (n > 3) {
			t.Errorf("connection %d: answered %d, closed %v", n, r.StatusCode, r.Close)
		}
	}
}
