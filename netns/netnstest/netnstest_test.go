package netnstest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lameduck/netns/netnstest"
)

func TestMain(m *testing.M) { os.Exit(netnstest.Main(m)) }

func TestUnprivilegedHasNothing(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"NoNewPrivs:\t1", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapInh:\t0000000000000000",
			"CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000",
		} {
			if !strings.Contains(string(status), want+"\n") {
				t.Errorf("no line %q in\n%s", want, status)
			}
		}
		if uid := os.Getuid(); uid != 65532 && os.Getenv("LAMEDUCK_TEST_USERNS") == "" {
			t.Errorf("uid %d", uid)
		}
	})
}

// The process's result is the test's: else no unprivileged test could fail.
func TestUnprivilegedFailuresAndSkipsAreTheTests(t *testing.T) {
	const how = "NETNSTEST_HOW"
	bodies := map[string]func(t *testing.T){
		"fail":  func(t *testing.T) { t.Error("as it shall") },
		"panic": func(*testing.T) { panic("as it shall") },
		"exit":  func(*testing.T) { os.Exit(0) },
		"skip":  func(t *testing.T) { t.Skip("as it shall") },
		"pass":  func(*testing.T) {},
	}
	if body := bodies[os.Getenv(how)]; body != nil {
		netnstest.RunUnprivileged(t, nil, body)
		return
	}
	for name, want := range map[string]string{
		"fail": "--- FAIL", "panic": "--- FAIL", "exit": "--- FAIL", "skip": "--- SKIP", "pass": "--- PASS",
	} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), how+"="+name)
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), "\n"+want+": "+t.Name()) || (err != nil) != (want == "--- FAIL") {
			t.Errorf("%s: %v, want %s:\n%s", name, err, want, out)
		}
	}
}

func TestNamespaceEndsWithItsTest(t *testing.T) {
	link := ""
	t.Run("a test", func(t *testing.T) {
		n := netnstest.New(t)
		var err error
		if link, err = os.Readlink(n.Path()); err != nil || !strings.HasPrefix(link, "net:") {
			t.Fatalf("%s: %v", link, err)
		}
	})
	// A thread ends a moment after its goroutine.
	for end := time.Now().Add(10 * time.Second); ; <-time.After(time.Millisecond) {
		held := holders(t, link)
		if len(held) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v still hold %s", held, link)
		}
	}
}

// holders are the descriptors and threads of this process that hold a namespace.
func holders(t *testing.T, link string) (held []string) {
	t.Helper()
	for _, pattern := range []string{"/proc/self/fd/*", "/proc/self/task/*/ns/net"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if target, _ := os.Readlink(path); target == link {
				held = append(held, path)
			}
		}
	}
	return held
}
