package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// The messages as the protocol has them; a real client of gRPC is in the e2e module.
var (
	serving    = []byte{0, 0, 0, 0, 2, 8, 1}
	notServing = []byte{0, 0, 0, 0, 2, 8, 2}
)

// request is a HealthCheckRequest{service = 1: name}, with its length before it.
func request(name string) []byte {
	if name == "" {
		return []byte{0, 0, 0, 0, 0}
	}
	return append([]byte{0, 0, 0, 0, byte(len(name) + 2), 0x0a, byte(len(name))}, name...)
}

// callOn sends a call and returns what its answer begins with.
func callOn(ctx context.Context, t *testing.T, c *http.Client, base, path string, body io.Reader) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// wantCall makes a call that ends by itself.
func wantCall(t *testing.T, c *http.Client, base, path string, body, want []byte, status string) http.Header {
	t.Helper()
	r := callOn(t.Context(), t, c, base, path, bytes.NewReader(body))
	got, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 || r.ProtoMajor != 2 || r.Header.Get("Content-Type") != "application/grpc" || r.ContentLength >= 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	if !bytes.Equal(got, want) || r.Trailer.Get("Grpc-Status") != status {
		t.Errorf("%s: got % x, status %s %q", path, got, r.Trailer.Get("Grpc-Status"), r.Trailer.Get("Grpc-Message"))
	}
	return r.Header
}

func TestGRPCHealthFollowsTheDrain(t *testing.T) {
	for _, test := range []struct {
		name     string
		draining bool
		unwell   error
		want     []byte
		fail     string
	}{
		{"serving and well", false, nil, serving, ""},
		{"serving and unwell", false, errors.New("port 8080 does not listen"), notServing, ""},
		{"draining", true, nil, notServing, "1"},
		{"draining and unwell", true, errors.New("gone"), notServing, "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			backend := newFake()
			backend.draining, backend.unwell = test.draining, test.unwell
			base, _ := serve(t, backend, nil)
			c := client(t, true)
			// Whatever name is asked for, and even what is no message: a host is well or it is not.
			for i, body := range [][]byte{request(""), request("shop.Cart"), {}, []byte("drain\n"), bytes.Repeat([]byte{0xff}, maxMessage)} {
				header := wantCall(t, c, base, callCheck, body, test.want, "0")
				if got := header.Get("X-Envoy-Immediate-Health-Check-Fail"); got != test.fail {
					t.Errorf("the header is %q", got)
				}
				failed := bytes.Equal(test.want, notServing)
				backend.await(t, "word of the check", func(f *fake) bool {
					return len(f.checks) == i+1 && f.checks[i].source.Addr().IsLoopback() && f.checks[i].failed == failed
				})
			}
			all := append([]byte{0, 0, 0, 0, 8, 0x0a, 6, 0x0a, 0, 0x12, 2}, test.want[5:]...)
			wantCall(t, c, base, callList, request(""), all, "0")
		})
	}
}

func TestOverlongMessagesAreRefused(t *testing.T) {
	base, _ := serve(t, newFake(), nil)
	for _, path := range []string{callCheck, callWatch, callList} {
		wantCall(t, client(t, true), base, path, make([]byte, maxMessage+1), nil, "3")
	}
}

func TestMessagesThatDoNotComeInTimeAreRefused(t *testing.T) {
	base, _ := serve(t, newFake(), func(s *Server) { s.read = 50 * time.Millisecond })
	never, _ := io.Pipe()
	r := callOn(t.Context(), t, client(t, true), base, callCheck, never)
	_, _ = io.Copy(io.Discard, r.Body)
	if got := r.Trailer.Get("Grpc-Status"); got != "3" {
		t.Errorf("status %s", got)
	}
}

// watching is a call of Watch.
type watching struct {
	t      *testing.T
	answer *http.Response
	next   chan []byte // closed at the end
}

func watchOn(ctx context.Context, t *testing.T, c *http.Client, base string) watching {
	t.Helper()
	w := watching{t, callOn(ctx, t, c, base, callWatch, bytes.NewReader(request(""))), make(chan []byte)}
	go func() {
		defer close(w.next)
		for {
			b := make([]byte, len(serving))
			if _, err := io.ReadFull(w.answer.Body, b); err != nil {
				return
			}
			select {
			case w.next <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w
}

// want waits for the next message; nil stands for the end.
func (w watching) want(message []byte) {
	w.t.Helper()
	select {
	case got := <-w.next:
		if !bytes.Equal(got, message) {
			w.t.Errorf("got % x, want % x", got, message)
		}
	case <-time.After(watchdog):
		w.t.Fatalf("% x does not come", message)
	}
}

// wantNone tells that no message has come.
func (w watching) wantNone() {
	w.t.Helper()
	select {
	case got := <-w.next:
		w.t.Errorf("got % x", got)
	default:
	}
}

// C14: a source that watches has been told when the change has left.
func TestWatchTellsAtOnceAndAtTheTrigger(t *testing.T) {
	backend := newFake()
	base, _ := serve(t, backend, nil)
	w := watchOn(t.Context(), t, client(t, true), base)
	w.want(serving)
	backend.await(t, "word of the first answer", func(f *fake) bool { return len(f.checks) == 1 && !f.checks[0].failed })
	w.wantNone()
	backend.begin()
	w.want(notServing)
	backend.await(t, "word of the second answer", func(f *fake) bool {
		return len(f.checks) == 2 && f.checks[1].failed && f.checks[1].source == f.checks[0].source
	})
	late := watchOn(t.Context(), t, client(t, true), base)
	late.want(notServing)
	if got := late.answer.Header.Get("X-Envoy-Immediate-Health-Check-Fail"); got != "1" {
		t.Errorf("the header is %q", got)
	}
}

// Watch asks nobody by itself: it hears what the checks of others find.
func TestWatchTellsWhatOtherChecksFind(t *testing.T) {
	backend := newFake()
	base, _ := serve(t, backend, nil)
	w := watchOn(t.Context(), t, client(t, true), base)
	w.want(serving)
	backend.set(func(f *fake) { f.unwell = errors.New("unwell") })
	get(t, client(t, false), base+"/healthz")
	w.want(notServing)
	backend.set(func(f *fake) { f.unwell = nil })
	wantCall(t, client(t, true), base, callCheck, request(""), serving, "0")
	w.want(serving)
	get(t, client(t, false), base+"/healthz")
	w.wantNone()
}

// A client that has been told that the application is unwell has not been told of the drain.
func TestWatchTellsOfTheDrainOfAnUnwellApplication(t *testing.T) {
	backend := newFake()
	backend.unwell = errors.New("unwell")
	base, _ := serve(t, backend, nil)
	w := watchOn(t.Context(), t, client(t, true), base)
	w.want(notServing)
	backend.begin()
	w.want(notServing)
	backend.await(t, "word of both", func(f *fake) bool { return len(f.checks) == 2 })
}

func TestWatchEndsWithTheServer(t *testing.T) {
	base, stop := serve(t, newFake(), nil)
	w := watchOn(t.Context(), t, client(t, true), base)
	w.want(serving)
	stop()
	w.want(nil)
	if got := w.answer.Trailer.Get("Grpc-Status"); got != "14" {
		t.Errorf("status %q", got)
	}
}

func TestNoTimeoutCutsAWatch(t *testing.T) {
	const timeout = 50 * time.Millisecond
	backend := newFake()
	base, _ := serve(t, backend, func(s *Server) { s.read, s.write = timeout, timeout })
	w := watchOn(t.Context(), t, client(t, true), base)
	w.want(serving)
	passTimeouts(t, base)
	w.wantNone()
	backend.begin()
	w.want(notServing)
}

func TestWatchesAreBoundedAndGiveTheirPlaceBack(t *testing.T) {
	backend := newFake()
	base, _ := serve(t, backend, func(s *Server) { s.handler.watches = make(chan struct{}, 2) })
	c := client(t, true)
	first, leave := context.WithCancel(t.Context())
	watchOn(first, t, c, base).want(serving)
	watchOn(t.Context(), t, c, base).want(serving)
	wantCall(t, c, base, callWatch, request(""), nil, "8")
	wantCall(t, c, base, callCheck, request(""), serving, "0")
	leave()
	for deadline := time.Now().Add(watchdog); ; { // the server hears of it a moment later
		r := callOn(t.Context(), t, c, base, callWatch, bytes.NewReader(request("")))
		if n, _ := r.Body.Read(make([]byte, len(serving))); n > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the place is not given back")
		}
	}
}

// Each connection that has checked is known by its port until it closes: so it can be told, or missed.
func TestCheckersAreNamedUntilTheyLeave(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		backend := newFake()
		base, _ := serve(t, backend, nil)
		one, two := client(t, http2), client(t, http2)
		for i, c := range []*http.Client{one, one, two} { // an answer is entered once it has left: the next waits for that
			get(t, c, base+"/healthz")
			backend.await(t, "the check", func(f *fake) bool { return len(f.checks) == i+1 })
		}
		get(t, two, base+"/livez")
		backend.await(t, "three checks on two connections", func(f *fake) bool {
			return len(f.checks) == 3 && f.checks[0].source == f.checks[1].source && f.checks[0].source != f.checks[2].source && len(f.left) == 0
		})
		one.CloseIdleConnections()
		backend.await(t, "the first one's leave", func(f *fake) bool { return len(f.left) == 1 && f.left[0] == f.checks[0].source })
		two.CloseIdleConnections()
		backend.await(t, "the second one's leave", func(f *fake) bool { return len(f.left) == 2 && f.left[1] == f.checks[2].source })
	}
}

// In observe-only a drain begins and no check fails: there is nothing to tell then, and what comes later is told.
func TestWatchTellsNothingOfADrainThatIsOnlyObserved(t *testing.T) {
	backend := newFake()
	base, _ := serve(t, backend, nil)
	w := watchOn(t.Context(), t, client(t, true), base)
	w.want(serving)
	close(backend.begun)
	get(t, client(t, false), base+"/healthz")
	w.wantNone()
	backend.set(func(f *fake) { f.unwell = errors.New("unwell") })
	get(t, client(t, false), base+"/healthz")
	w.want(notServing)
}
