package host

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lameduck/drain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// systemd is a notify socket, and what has come to it.
type systemd struct {
	t    *testing.T
	conn *net.UnixConn
}

func newSystemd(t *testing.T) systemd {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return systemd{t, conn}
}

// next is the next datagram, as assignments.
func (s systemd) next() map[string]string {
	s.t.Helper()
	_ = s.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	buffer := make([]byte, 4096)
	n, err := s.conn.Read(buffer)
	if err != nil {
		s.t.Fatal(err)
	}
	said := map[string]string{}
	for line := range strings.SplitSeq(string(buffer[:n]), "\n") {
		key, value, _ := strings.Cut(line, "=")
		said[key] = value
	}
	return said
}

// fake is a drain whose owner may be stuck.
type fake struct {
	begun chan struct{}
	stuck sync.Mutex // held: the owner does not answer

	mu     sync.Mutex
	status drain.Status
}

func (f *fake) Begun() <-chan struct{} { return f.begun }

func (f *fake) Status() drain.Status {
	f.stuck.Lock()
	defer f.stuck.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *fake) set(s drain.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = s
}

// start runs a service until the test's end.
func start(t *testing.T, d Drain) *Service {
	service, err := Find(nil)
	if err != nil || service == nil {
		t.Fatalf("service %v: %v", service, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx, d) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return service
}

func TestSystemdIsToldOfEachStep(t *testing.T) {
	host := newSystemd(t)
	d := &fake{begun: make(chan struct{}), status: drain.Status{Phase: drain.Serving}}
	service := start(t, d)
	if said := host.next(); said["READY"] != "1" || said["STATUS"] != "serving" {
		t.Errorf("at the start: %v", said)
	}
	d.set(drain.Status{Phase: drain.Draining, WaitsFor: "10.0.0.1 sends\nREADY=1"})
	close(d.begun)
	for range 2 { // at once, and again a second later
		said := host.next()
		if said["STATUS"] != "draining: 10.0.0.1 sends READY=1" || said["READY"] != "" {
			t.Errorf("in the drain: %v", said)
		}
		if us, err := strconv.Atoi(said["EXTEND_TIMEOUT_USEC"]); err != nil || time.Duration(us)*time.Microsecond < 5*spoken {
			t.Errorf("in the drain: %v", said)
		}
	}
	service.Stopping()
	for said := host.next(); said["STOPPING"] != "1"; said = host.next() {
		if said["STATUS"] == "" {
			t.Errorf("neither news nor STOPPING: %v", said)
		}
	}
}

func TestWatchdogIsFedOnlyWhileTheDrainAnswers(t *testing.T) {
	host := newSystemd(t)
	t.Setenv("WATCHDOG_USEC", "100000")
	d := &fake{begun: make(chan struct{})}
	start(t, d)
	host.next()
	for range 3 {
		if said := host.next(); said["WATCHDOG"] != "1" {
			t.Errorf("%v", said)
		}
	}
	d.stuck.Lock()
	defer d.stuck.Unlock()
	// What was on its way has come by then; systemd would have ended us after the next.
	_ = host.conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	n := 0
	for buffer := make([]byte, 64); ; n++ {
		if _, err := host.conn.Read(buffer); err != nil {
			break
		}
	}
	if n > 1 {
		t.Errorf("%d signs of life of a drain that is stuck", n)
	}
}

func TestSystemdThatCannotBeToldIsToldAgain(t *testing.T) {
	host := newSystemd(t)
	path := host.conn.LocalAddr().String()
	host.conn.Close()
	d := &fake{begun: make(chan struct{})}
	service, err := Find(nil)
	if err != nil {
		t.Fatal(err)
	}
	service.Stopping() // nobody hears it
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start(t, d)
	if said := (systemd{t, conn}).next(); said["READY"] != "1" {
		t.Errorf("%v", said)
	}
}

func TestWithoutSystemdThereIsNoService(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if service, err := Find(nil); service != nil || err != nil {
		t.Errorf("%v, %v", service, err)
	}
}

func TestWatchdogOfAnotherIsNotOurs(t *testing.T) {
	newSystemd(t)
	t.Setenv("WATCHDOG_USEC", "100000")
	t.Setenv("WATCHDOG_PID", "1")
	if service, err := Find(nil); err != nil || service.watchdog != 0 {
		t.Errorf("%+v, %v", service, err)
	}
}
