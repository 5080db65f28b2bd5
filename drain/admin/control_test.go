package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lameduck/drain"
)

var sockets atomic.Int64 // names differ, since tests share a namespace

// serveControl starts a control socket with the fake and returns its name.
func serveControl(t *testing.T, backend *fake, change func(*Control)) (name string, stop func()) {
	t.Helper()
	name = fmt.Sprintf("%s-test-%d-%d", ControlName, os.Getpid(), sockets.Add(1))
	control, err := ListenControl(name, backend, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(control)
	}
	return name, running(t, control.Run)
}

// said sends bytes and returns all that comes back until the end.
func said(t *testing.T, name, bytes string) string {
	t.Helper()
	conn, err := net.Dial("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(watchdog))
	_, _ = io.WriteString(conn, bytes)
	answer, err := io.ReadAll(conn)
	if err != nil && len(answer) == 0 {
		t.Fatalf("%q: %v", bytes, err)
	}
	return string(answer)
}

func TestDrainGoesThroughTheControlSocketOnly(t *testing.T) {
	backend := newFake()
	name, _ := serveControl(t, backend, nil)
	for range 2 { // that a second one changes nothing is the drain's promise: each is handed on
		if _, err := call(t.Context(), []string{name}, "drain"); err != nil {
			t.Fatal(err)
		}
	}
	backend.await(t, "both triggers", func(f *fake) bool { return slices.Equal(f.triggers, []string{"drain", "drain"}) })
}

func TestControlAnswersOnlyItsThreeCommands(t *testing.T) {
	backend := newFake()
	name, _ := serveControl(t, backend, func(c *Control) { c.read = 50 * time.Millisecond })
	for bytes, want := range map[string]string{
		"\n":                                   `error unknown command ""`,
		"Drain\n":                              `error unknown command "Drain"`,
		"drain now\n":                          `error unknown command "drain now"`,
		"GET /hold HTTP/1.1\r\n":               `error unknown command "GET /hold HTTP/1.1"`,
		"drain":                                "error no line", // no end of line comes
		strings.Repeat("x", 100) + "\ndrain\n": "error no line",
		strings.Repeat(" ", 60) + "drain\n":    "error no line", // 66 bytes
		"":                                     "error no line",
	} {
		if got := said(t, name, bytes); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%q was answered %q", bytes, got)
		}
	}
	unchanged(t, backend)
}

func TestControlShowsTheStatus(t *testing.T) {
	backend := newFake()
	backend.status = drain.Status{Phase: drain.Covering, WaitsFor: "quiet:\n2 s", Degraded: []string{"x"}}
	name, _ := serveControl(t, backend, nil)
	got, err := fetchStatus(t.Context(), []string{name})
	if err != nil || got.Phase != drain.Covering || got.WaitsFor != "quiet:\n2 s" || len(got.Degraded) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// controlHold sends a hold and returns where its error comes.
func controlHold(ctx context.Context, name string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := call(ctx, []string{name}, "hold")
		ended <- err
	}()
	return ended
}

func within(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(watchdog):
		t.Fatal("it does not end")
		return nil
	}
}

func TestControlHoldsUntilTheRelease(t *testing.T) {
	backend := newFake()
	name, _ := serveControl(t, backend, func(c *Control) { c.read = time.Millisecond })
	first, second := controlHold(t.Context(), name), controlHold(t.Context(), name)
	backend.awaitHolds(t, 2)
	close(backend.released)
	for _, ended := range []<-chan error{first, second} {
		if err := within(t, ended); err != nil {
			t.Error(err)
		}
	}
}

func TestAControlClientThatLeavesEndsItsOwnHoldOnly(t *testing.T) {
	backend := newFake()
	name, _ := serveControl(t, backend, nil)
	ctx, leave := context.WithCancel(t.Context())
	leaves, stays := controlHold(ctx, name), controlHold(t.Context(), name)
	backend.awaitHolds(t, 2)
	leave()
	if err := within(t, leaves); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	backend.awaitHolds(t, 1)
	close(backend.released)
	if err := within(t, stays); err != nil {
		t.Error(err)
	}
}

// More bytes than the line are no reason to end a hold.
func TestBytesAfterTheLineDoNotEndAHold(t *testing.T) {
	backend := newFake()
	name, _ := serveControl(t, backend, nil)
	conn, err := net.Dial("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(watchdog))
	_, _ = io.WriteString(conn, "hold\n")
	backend.awaitHolds(t, 1)
	_, _ = io.WriteString(conn, "\nhello\n")
	// The next client's answer tells that the server has had its turn.
	_ = said(t, name, "status\n")
	backend.awaitHolds(t, 1)
	close(backend.released)
	if answer, err := io.ReadAll(conn); err != nil || string(answer) != "ok\n" {
		t.Errorf("got %q, %v", answer, err)
	}
}

func TestControlHoldsAreAnsweredWhenItEnds(t *testing.T) {
	backend := newFake()
	name, stop := serveControl(t, backend, nil)
	ended := controlHold(t.Context(), name)
	backend.awaitHolds(t, 1)
	stop()
	if err := within(t, ended); err != nil {
		t.Error(err)
	}
}

// Neither holds nor clients that send half a line, or read no answer, keep a drain out.
func TestNobodyKeepsTheDrainOut(t *testing.T) {
	backend := newFake()
	name, _ := serveControl(t, backend, func(c *Control) { c.read = time.Hour })
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	backend.set(func(f *fake) { f.status.WaitsFor = strings.Repeat("x", 1<<20) }) // more than a socket takes unread
	for range 400 {
		for _, bytes := range []string{"dra", "status\n", ""} {
			conn, err := net.Dial("unix", name)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, bytes)
		}
	}
	for n := 1; n <= maxHolds; n++ {
		controlHold(ctx, name)
	}
	backend.awaitHolds(t, maxHolds)
	if _, err := call(ctx, []string{name}, "hold"); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("a hold above the bound ended with %v", err)
	}
	start := time.Now()
	if _, err := call(ctx, []string{name}, "drain"); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 3*time.Second { // the client itself gives up after 5 s
		t.Errorf("the drain took %v", took)
	}
	backend.await(t, "the drain", func(f *fake) bool { return len(f.triggers) == 1 })
	close(backend.released)
	backend.awaitHolds(t, 0)
}

func TestUnreadAnswersDelayTheEndForHalfASecond(t *testing.T) {
	backend := newFake()
	backend.status.WaitsFor = strings.Repeat("x", 1<<20) // more than a socket takes unread
	name, stop := serveControl(t, backend, nil)
	conn, err := net.Dial("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "status\n")
	if _, err := conn.Read(make([]byte, 1)); err != nil { // it is being written
		t.Fatal(err)
	}
	start := time.Now()
	stop()
	if took := time.Since(start); took > shutdownTimeout+time.Second {
		t.Errorf("the end took %v", took)
	}
}

// A client that sends no line is sent away in time, and so gives its descriptor back.
func TestHalfALineIsSentAway(t *testing.T) {
	name, _ := serveControl(t, newFake(), func(c *Control) { c.read = 50 * time.Millisecond })
	if got := said(t, name, "dra"); !strings.HasPrefix(got, "error no line") {
		t.Errorf("answered %q", got)
	}
}

func TestASecondControlSocketIsSaidToBeInUse(t *testing.T) {
	name, _ := serveControl(t, newFake(), nil)
	if _, err := ListenControl(name, newFake(), nil, nil); !errors.Is(err, ErrControlInUse) || !strings.Contains(err.Error(), "another lameduck") {
		t.Errorf("got %v", err)
	}
}

// An abstract socket dies with its listener: a restarted lameduck finds its name free.
func TestTheControlSocketIsFreeAfterItsEnd(t *testing.T) {
	name, stop := serveControl(t, newFake(), nil)
	stop()
	control, err := ListenControl(name, newFake(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = control.listener.Close()
}

func TestASidecarThatGoesAwayIsAnErrorOfItsHolds(t *testing.T) {
	name := fmt.Sprintf("%s-test-%d-%d", ControlName, os.Getpid(), sockets.Add(1))
	listener, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	ended := controlHold(t.Context(), name)
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Read(make([]byte, 64))
	_ = conn.Close()
	_ = listener.Close()
	if err := within(t, ended); err == nil || !strings.Contains(err.Error(), "went away") {
		t.Errorf("got %v", err)
	}
	if err := within(t, controlHold(t.Context(), name)); err == nil || !strings.Contains(err.Error(), "no lameduck serves "+name) {
		t.Errorf("got %v", err)
	}
}
