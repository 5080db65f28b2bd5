package node

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace that lives as long as its file is open or a process is in it.
type namespace struct{ file *os.File }

// newNamespace makes an empty network namespace.
func newNamespace() (*namespace, error) {
	var ns *namespace
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare network namespace: %w", err)
		}
		file, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		ns = &namespace{file}
		return nil
	})
	return ns, err
}

// do runs f on a thread that is in the namespace. Sockets and processes that f makes stay there.
func (n *namespace) do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

func (n *namespace) close() { _ = n.file.Close() }

// onThread runs f on a thread of its own, whose network namespace is put back afterwards. A thread that cannot be put
// back ends with its goroutine: the runtime destroys a thread that a goroutine leaves locked.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = home.Close() }()
		err = f()
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
