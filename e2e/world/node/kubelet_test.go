package node

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"lameduck/e2e/world"
	"lameduck/e2e/world/app"
)

// TestMain is also the application that the tests' containers run.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "app":
			os.Exit(app.Main(os.Args[2:]))
		case "shell":
			os.Exit(app.Shell(os.Args[2:]))
		case "child":
			app.Child()
		}
	}
	os.Exit(m.Run())
}

// testPod is a pod whose containers run in an empty network namespace.
func testPod(t *testing.T, containers ...*container) *pod {
	t.Helper()
	ns, err := newNamespace()
	if errors.Is(err, unix.EPERM) {
		t.Skipf("needs root: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.close)
	here, err := netlink.NewHandleAt(netns.NsHandle(int(ns.file.Fd())))
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if err := linkUp(here, "lo"); err != nil {
		t.Fatal(err)
	}
	p := &pod{name: "pod", ns: ns, containers: containers, random: rand.New(rand.NewPCG(1, 1)), gone: make(chan struct{})}
	for i, c := range containers {
		c.log = os.DevNull
		c.args = append(c.args, "-listen", testAddress(i))
		if err := c.start(ns); err != nil {
			t.Fatal(err)
		}
		process := c.current()
		t.Cleanup(func() { _ = c.current().signal(unix.SIGKILL); <-process.exited })
		// The application listens once it hears signals.
		if err := poll(10*time.Second, func() error { return listening(p, testAddress(i)) }); err != nil {
			t.Fatalf("%s does not listen: %v", c.name, err)
		}
	}
	return p
}

// testAddress is where container i listens.
func testAddress(i int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(8080+i)) }

// listening tells whether something in the pod accepts connections at an address.
func listening(p *pod, address string) error {
	return p.ns.do(func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
}

// testContainer runs the application with the given manners.
func testContainer(name string, onTerm world.TermBehaviour, flags ...string) *container {
	return &container{name: name, args: append([]string{
		"app", "-on-term", string(onTerm), "-serve-for", "500ms",
	}, flags...)}
}

// at is the offset of a mark from the deletion; the test fails without one.
func at(t *testing.T, p *pod, name, what string) time.Duration {
	t.Helper()
	var deleted time.Time
	for _, m := range p.all() {
		if m.what == world.MarkDeleted {
			deleted = m.at
		}
		if m.container == name && m.what == what {
			return m.at.Sub(deleted)
		}
	}
	t.Fatalf("no %q of %s in %v", what, name, p.all())
	return 0
}

func TestHookDelaysOnlyItsOwnContainer(t *testing.T) {
	t.Parallel()
	slow := testContainer("slow", world.Exit)
	slow.preStop = &hook{wait: time.Second}
	quick := testContainer("quick", world.Exit)
	p := testPod(t, slow, quick)
	newKubelet(10 * time.Second).delete(p)
	if got := at(t, p, "quick", world.MarkTerm); got > 500*time.Millisecond {
		t.Errorf("the container without a hook got SIGTERM %v after the deletion", got)
	}
	if got := at(t, p, "slow", world.MarkTerm); got < time.Second {
		t.Errorf("SIGTERM came %v after the deletion, before the hook's end", got)
	}
}

func TestNativeSidecarsGetSIGTERMAfterTheRestInReverseOrder(t *testing.T) {
	t.Parallel()
	first, second := testContainer("first", world.Exit), testContainer("second", world.Serve)
	first.native, second.native = true, true
	first.preStop = &hook{wait: time.Millisecond}
	p := testPod(t, first, second, testContainer("main", world.Serve))
	newKubelet(10 * time.Second).delete(p)
	if got := at(t, p, "first", world.MarkHookStart); got > 500*time.Millisecond {
		t.Errorf("the sidecar's hook started %v after the deletion, not with it", got)
	}
	order := []time.Duration{
		at(t, p, "main", world.MarkTerm), at(t, p, "main", world.MarkExit),
		at(t, p, "second", world.MarkTerm), at(t, p, "second", world.MarkExit),
		at(t, p, "first", world.MarkTerm), at(t, p, "first", world.MarkExit),
	}
	for i := 1; i < len(order); i++ {
		if order[i] < order[i-1] {
			t.Fatalf("main, second, first did not end one after the other: %v", order)
		}
	}
}

func TestOneClockCoversHookAndTurnAndSIGTERM(t *testing.T) {
	t.Parallel()
	hooked := testContainer("hooked", world.Ignore)
	hooked.preStop = &hook{wait: time.Minute}
	sidecar := testContainer("sidecar", world.Ignore)
	sidecar.native = true
	p := testPod(t, sidecar, hooked)
	newKubelet(time.Second).delete(p)
	// Hook and turn take the second of grace; then each has the least grace of 2 s.
	for _, name := range []string{"hooked", "sidecar"} {
		term, kill := at(t, p, name, world.MarkTerm), at(t, p, name, world.MarkKill)
		if term < time.Second || term > 2*time.Second {
			t.Errorf("%s: SIGTERM %v after the deletion", name, term)
		}
		if kill-term < leastGrace || kill-term > leastGrace+time.Second {
			t.Errorf("%s: SIGKILL %v after SIGTERM", name, kill-term)
		}
	}
}

func TestContainerIsKilledAtTheGracePeriodsEnd(t *testing.T) {
	t.Parallel()
	p := testPod(t, testContainer("deaf", world.Ignore))
	newKubelet(3 * time.Second).delete(p)
	if got := at(t, p, "deaf", world.MarkKill); got < 3*time.Second || got > 4*time.Second {
		t.Errorf("SIGKILL %v after the deletion", got)
	}
}

func TestFailedHTTPHookMeansSIGTERMAtOnce(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	c := testContainer("main", world.Exit)
	c.preStop = &hook{http: server.URL}
	p := testPod(t, c)
	newKubelet(20 * time.Second).delete(p)
	<-asked
	at(t, p, "main", world.MarkHookFailed)
	if got := at(t, p, "main", world.MarkTerm); got > time.Second {
		t.Errorf("SIGTERM %v after the deletion", got)
	}
}

func TestExecHookStartsLateAndRunsInTheContainersNamespace(t *testing.T) {
	t.Parallel()
	c := testContainer("main", world.Exit)
	c.execDelay = 400 * time.Millisecond
	// This fails at once where the port is taken: in the pod's namespace.
	c.preStop = &hook{exec: []string{"app", "-listen", testAddress(0)}}
	p := testPod(t, c)
	newKubelet(20 * time.Second).delete(p)
	if got := at(t, p, "main", world.MarkHookStart); got < c.execDelay {
		t.Errorf("the exec hook started %v after the deletion", got)
	}
	at(t, p, "main", world.MarkHookFailed)
}

func TestRestartRunsTheHookAndStartsTheContainerAnew(t *testing.T) {
	t.Parallel()
	c := testContainer("main", world.Exit)
	c.preStop = &hook{wait: 100 * time.Millisecond}
	p := testPod(t, c)
	before := c.current()
	if err := newKubelet(20*time.Second).restart(p, c); err != nil {
		t.Fatal(err)
	}
	<-before.exited
	at(t, p, "main", world.MarkHookEnd)
	if err := poll(10*time.Second, func() error { return listening(p, testAddress(0)) }); err != nil {
		t.Errorf("the new container does not listen: %v", err)
	}
}

func TestChildOutlivesTheAppButNotItsContainer(t *testing.T) { // C29
	t.Parallel()
	c := testContainer("main", world.Exit, "-leave-child")
	c.args = append([]string{"shell"}, c.args...)
	p := testPod(t, c)
	newKubelet(3 * time.Second).delete(p)
	// The application left at SIGTERM; its child kept the container running until SIGKILL.
	at(t, p, "main", world.MarkKill)
	if err := listening(p, testAddress(0)); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("the child's listener is still there: %v", err)
	}
}
