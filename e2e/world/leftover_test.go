package world_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/e2e/world"
)

// TestNothingIsLeftBehind ends a run in the middle in the ways that a terminal and a kill -9 do.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{unix.SIGKILL, unix.SIGINT, unix.SIGTERM} {
		t.Run(unix.SignalName(s), func(t *testing.T) {
			t.Parallel()
			// Its own copy: whose program it runs tells this world's processes from those of others.
			mine := tools
			mine.World = copyOf(t, tools.World)
			runner, started := startRun(t, mine, &syscall.SysProcAttr{Setpgid: true})
			started()
			if got := processesOf(t, mine.World); len(got) < 6 {
				t.Fatalf("only %d processes in a running world", len(got))
			}
			// A terminal's Ctrl-C goes to the whole group.
			if err := unix.Kill(-runner.Process.Pid, s); err != nil {
				t.Fatal(err)
			}
			_ = runner.Wait()
			eventually(t, "processes", func() []string { return processesOf(t, mine.World) })
			eventually(t, "mounts", func() []string { return mountsAt(t, tools.Dir) })
			if files, err := os.ReadDir(tools.Dir); err != nil || len(files) > 0 {
				t.Errorf("files left: %v, %v", files, err)
			}
		})
	}
}

// TestWorldNeedsNoRoot runs one as nobody.
func TestWorldNeedsNoRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("every world of this run is unprivileged")
	}
	t.Parallel()
	spec := world.Spec{
		Name: t.Name(), Duration: 10 * time.Second, Load: []world.Stream{{Rate: rate}}, Events: deletePods(1),
		Sidecar: world.Sidecar{Kind: world.Native, Hold: true, Args: []string{"--min", "0s", "--quiet", "2s"}},
		Envoy:   world.Envoy{Lag: 2 * time.Second},
	}
	cmd := runCommand(t, tools, spec)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	if errors.Is(err, unix.EACCES) {
		t.Skipf("nobody may not run what lies in this folder: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	var r world.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Load.Sent != 10*rate || len(r.Load.Failures) > 0 {
		t.Error(describe(r))
	}
}

// runCommand is `world run` of a spec.
func runCommand(t *testing.T, tools world.Tools, spec world.Spec) *exec.Cmd {
	t.Helper()
	ready, err := json.Marshal(tools)
	if err != nil {
		t.Fatal(err)
	}
	order, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(tools.World, "run", "-tools", string(ready))
	cmd.Stdin = bytes.NewReader(order)
	return cmd
}

// startRun starts a long run in a process of its own; started returns once all its parts are there.
func startRun(t *testing.T, tools world.Tools, attr *syscall.SysProcAttr) (*exec.Cmd, func()) {
	t.Helper()
	cmd := runCommand(t, tools, world.Spec{
		Duration: time.Minute, Load: []world.Stream{{Rate: 10}},
		Sidecar: world.Sidecar{Kind: world.Native, Hold: true}, Events: []world.Event{{At: 0, Delete: []int{0}}},
	})
	cmd.Stderr = io.Discard
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, func() {
		deadline := time.After(20 * time.Second)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for !slices.ContainsFunc(processesOf(t, tools.World), func(p string) bool { return strings.Contains(p, "\x00load") }) {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatal("the load never started")
			}
		}
	}
}

func copyOf(t *testing.T, program string) string {
	t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(program), "copy-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "world")
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// processesOf lists the command lines of the processes that share a PID namespace below this one with a process of
// the program, or run it.
func processesOf(t *testing.T, program string) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	namespaces := make(map[string]bool)
	own, _ := os.Readlink("/proc/self/ns/mnt")
	for _, d := range dirs {
		if exe, _ := os.Readlink(d + "/exe"); exe == program {
			if ns, _ := os.Readlink(d + "/ns/mnt"); ns != own {
				namespaces[ns] = true
			}
		}
	}
	var found []string
	for _, d := range dirs {
		exe, _ := os.Readlink(d + "/exe")
		ns, _ := os.Readlink(d + "/ns/mnt")
		if exe == program || namespaces[ns] {
			line, _ := os.ReadFile(d + "/cmdline")
			found = append(found, string(line))
		}
	}
	return found
}

func mountsAt(t *testing.T, dir string) []string {
	t.Helper()
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(content)) {
		if strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}

// eventually waits until nothing is left.
func eventually(t *testing.T, what string, left func() []string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(left()) > 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s left behind: %q", what, left())
		}
	}
}
