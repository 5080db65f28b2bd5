package netnstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const inUserNamespace = "LAMEDUCK_TEST_USERNS"

// Main runs a package's tests: return its result from TestMain by os.Exit. Without root it runs them in a child that is
// root of a user namespace of its own; where the machine forbids that, they run as they are, and New skips.
func Main(m *testing.M) int {
	if os.Geteuid() == 0 || os.Getenv(inUserNamespace) != "" || os.Getenv(marker) != "" {
		return m.Run()
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inUserNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	fmt.Fprintf(os.Stderr, "netnstest: no user namespace (%v): tests that need a network namespace are skipped\n", err)
	return m.Run()
}
