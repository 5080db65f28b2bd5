package netns_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/netns"
	"lameduck/netns/netnstest"
)

func inside(t testing.TB, n *netnstest.Namespace) bool {
	t.Helper()
	in, err := netns.Inside(n.Path())
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestDoActsInTheOtherNamespaceAlone(t *testing.T) {
	n := netnstest.New(t)
	failure := errors.New("of fn")
	err := netns.Do(n.Path(), func() error {
		if !inside(t, n) {
			t.Error("fn is not inside")
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("error %v, want fn's", err)
	}
	if inside(t, n) {
		t.Error("the caller has moved")
	}
}

func TestDoWithoutANamespaceDoesNothing(t *testing.T) {
	for _, path := range []string{"/nowhere", "/dev/null"} {
		if err := netns.Do(path, func() error { t.Error("fn was called"); return nil }); err == nil {
			t.Errorf("%s passed for a network namespace", path)
		}
	}
}

// A thread that cannot leave is lost to the runtime: no other goroutine may ever run in the wrong namespace.
func TestThreadThatCannotReturnIsDestroyed(t *testing.T) {
	n := netnstest.New(t)
	thread := 0
	err := netns.Do(n.Path(), func() error {
		thread = unix.Gettid()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // of this thread alone
		none := make([]unix.CapUserData, 2)
		return unix.Capset(&header, &none[0])
	})
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "destroyed") {
		t.Errorf("error: %v", err)
	}
	timeout, tick := time.After(10*time.Second), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread)); errors.Is(err, os.ErrNotExist) {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("thread %d lives", thread)
		}
	}
}

const enterEnv = "NETNS_TEST_ENTER"

// enter is what a process with --netns does.
func enter(path string) int {
	in, err := netns.Inside(path)
	if err == nil && !in {
		err = netns.EnterAndExec(path, os.Args, os.Environ())
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	// Inside, every thread is.
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, task := range tasks {
		link, err := os.Readlink("/proc/self/task/" + task.Name() + "/ns/net")
		fmt.Println(link, err)
	}
	return 0
}

func TestEnteredProcessLivesThereWithEveryThread(t *testing.T) {
	n := netnstest.New(t)
	cmd := exec.Command("/proc/self/exe", "an argument")
	cmd.Env = append(os.Environ(), enterEnv+"="+n.Path())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := ""
	n.Do(t, func() { want, err = os.Readlink("/proc/thread-self/ns/net") })
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		if line != want+" <nil>" {
			t.Errorf("a thread is in %q, want %q", line, want)
		}
	}
	if len(lines) < 2 {
		t.Errorf("%d threads: that shows nothing", len(lines))
	}
}

func TestEnterWithoutPrivilegeFailsAndMovesNothing(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		err := netns.EnterAndExec("/proc/self/ns/net", nil, nil)
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("error: %v", err)
		}
		if in, err := netns.Inside("/proc/self/ns/net"); err != nil || !in {
			t.Errorf("inside: %v, %v", in, err)
		}
	})
}
