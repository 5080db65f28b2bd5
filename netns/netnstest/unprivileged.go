package netnstest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	marker = "LAMEDUCK_TEST_UNPRIVILEGED"
	user   = 65532 // as the product's image runs
)

// RunUnprivileged runs body in a process of its own: this test binary again, for the test t alone, as uid 65532 with no
// capability and no_new_privs, in a new network namespace with loopback up. prepare, which may be nil, is called with
// that namespace before, with the privilege that the test began with. The result is t's.
//
// t must be the test or subtest that calls it, and call nothing before that may not happen twice. Where Main had to make
// a user namespace there is but one uid: the process then keeps it, without capabilities.
func RunUnprivileged(t *testing.T, prepare func(*Namespace), body func(t *testing.T)) {
	t.Helper()
	if os.Getenv(marker) != "" {
		body(t)
		return
	}
	n := New(t)
	if prepare != nil {
		prepare(n)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run="+exactly(t.Name()), "-test.v", "-test.count=1")
	if end, ok := t.Deadline(); ok {
		// Earlier than the test's own, so that what hangs is shown.
		cmd.Args = append(cmd.Args, "-test.timeout="+(time.Until(end)*9/10).String())
	}
	cmd.WaitDelay = 5 * time.Second // a process that body leaves behind holds the output open: an error, not a hang
	cmd.Env = append(os.Environ(), marker+"=1", "TMPDIR="+temp, "GOTMPDIR="+temp)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := n.run(cmd)
	text := out.String()
	t.Log("unprivileged process:\n" + text)
	switch {
	case err != nil:
		t.Fatalf("unprivileged process: %v", err)
	case strings.Contains(text, "--- SKIP: "+t.Name()+" ("):
		t.Skip("skipped in the unprivileged process")
	case !strings.Contains(text, "--- PASS: "+t.Name()+" ("):
		t.Fatal("the unprivileged process ended without a result")
	}
}

// exactly is a -test.run pattern that matches one test.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// run runs cmd in the namespace, without privilege, to its end.
func (n *Namespace) run(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getenv(inUserNamespace) == "" {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	done := make(chan error)
	go func() {
		// A child inherits from the thread that forks it, and dies with it (Pdeathsig): the goroutine waits for the
		// child, then ends locked, and the thread with it.
		runtime.LockOSThread()
		err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = privateTemp()
		}
		if err == nil {
			err = renounce()
		}
		if err == nil {
			err = cmd.Run()
		}
		done <- err
	}()
	return <-done
}

// temp is where privateTemp puts temporary files. It is not /tmp, where what is tested may lie itself.
const temp = "/mnt"

// privateTemp gives the calling thread, and its children, an empty folder for temporary files that any user may write to and
// that goes with them: the usual one may be in a place that only root can reach.
func privateTemp() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep mounts apart: %w", err)
	}
	if err := unix.Mount("tmpfs", temp, "tmpfs", unix.MS_NODEV|unix.MS_NOSUID, "mode=1777,size=64m"); err != nil {
		return fmt.Errorf("temporary files in %s: %w", temp, err)
	}
	return nil
}

// renounce takes from the calling thread what a child could gain by exec: with an empty bounding set and
// no_new_privs not even uid 0 has a capability after it.
func renounce() error {
	for capability := uintptr(0); ; capability++ {
		if set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0); err != nil || set < 0 {
			break // beyond the last one that this kernel knows
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
