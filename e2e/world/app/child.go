package app

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"os/signal"

	"golang.org/x/sys/unix"
)

// leaveChild starts a process that holds the listener until its container is killed.
func leaveChild(listener *net.TCPListener) error {
	file, err := listener.File()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, "child")
	child.ExtraFiles = []*os.File{file}
	return child.Start()
}

// Child holds whatever it inherited until it is killed, deaf to SIGTERM.
func Child() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	for {
		<-term
	}
}

// Shell is the entry process of a container whose application is not PID 1: it passes SIGTERM on, and ends when no
// process is left in the container, or by being killed.
func Shell(args []string) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	main := exec.Command(self, args...)
	main.Stdout, main.Stderr = os.Stdout, os.Stderr
	if err := main.Start(); err != nil {
		return 1
	}
	pid := main.Process.Pid
	go func() {
		for range term {
			_ = unix.Kill(pid, unix.SIGTERM)
		}
	}()
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return 0
		}
	}
}
