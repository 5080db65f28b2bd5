package takeover

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lameduck/netns/netnstest"
)

const benchPod = "LAMEDUCK_TEST_BENCH_POD"

func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector sleeps a second at each process's end, and there are many
	}
	if isBench := func(a string) bool { return strings.HasPrefix(a, "-test.bench=") }; slices.ContainsFunc(os.Args, isBench) &&
		os.Geteuid() == 0 && os.Getenv(benchPod) == "" {
		fmt.Fprintln(os.Stderr, "no pod for benchmarks:", enterPod())
		os.Exit(1)
	}
	os.Exit(netnstest.Main(m))
}

// enterPod begins the process anew in a pod's network namespace, so that benchmarks have one. It returns on failure only.
func enterPod() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := layPod(nil); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), benchPod+"=1"))
}
