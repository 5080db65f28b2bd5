package netns

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

const own = "/proc/thread-self/ns/net"

// Do runs fn in the network namespace at path (/run/netns/NAME, /proc/PID/ns/net, or /proc/self/fd/N for an open one).
// It needs CAP_SYS_ADMIN. fn runs on a goroutine of its own that is locked to its thread: sockets that fn itself makes
// belong to that namespace for good, those of goroutines that fn starts do not. Where the thread cannot be brought back
// it is destroyed, and the error says so.
func Do(path string, fn func() error) error {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done) // also when fn ends the goroutine, as testing.T.FailNow does
		runtime.LockOSThread()
		home, openErr := unix.Open(own, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if openErr != nil {
			runtime.UnlockOSThread()
			err = fmt.Errorf("netns: open %s: %w", own, openErr)
			return
		}
		defer unix.Close(home)
		if err = enter(path); err != nil {
			runtime.UnlockOSThread()
			return
		}
		defer func() {
			// Without the unlock the runtime ends the thread with the goroutine (runtime.LockOSThread), and nothing
			// else ever runs in the wrong namespace.
			if back := unix.Setns(home, unix.CLONE_NEWNET); back != nil {
				err = fmt.Errorf("netns: the thread cannot leave %s and is destroyed: %w", path, back)
				return
			}
			runtime.UnlockOSThread()
		}()
		err = fn()
	}()
	<-done
	return err
}

func enter(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("netns: open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("netns: enter %s: %w", path, err)
	}
	return nil
}

// EnterAndExec replaces the process by the same binary with argv and env, in the network namespace at path: then every
// thread lives there, and no goroutine needs care. It returns only on failure, and has then changed nothing.
// Inside tells the new process that it has arrived.
func EnterAndExec(path string, argv, env []string) error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: see Do
		if err := enter(path); err != nil {
			failed <- err
			return
		}
		// execve keeps the namespaces of the thread that calls it, and ends the others.
		failed <- fmt.Errorf("netns: execute self: %w", unix.Exec("/proc/self/exe", argv, env))
	}()
	return <-failed
}

// Inside tells whether the calling thread is in the network namespace at path.
func Inside(path string) (bool, error) {
	var there, here unix.Stat_t
	if err := unix.Stat(path, &there); err != nil {
		return false, fmt.Errorf("netns: %s: %w", path, err)
	}
	if err := unix.Stat(own, &here); err != nil {
		return false, fmt.Errorf("netns: %s: %w", own, err)
	}
	return there.Dev == here.Dev && there.Ino == here.Ino, nil
}
