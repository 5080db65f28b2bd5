package load

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Foreign opens count connections to itself over loopback, which makes twice as many sockets, says so by a line, and
// keeps them until its input ends. The far ends are never accepted, so they need no descriptors.
func Foreign(count int, in io.Reader, out io.Writer) error {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("foreign: %w", err)
	}
	var at unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Bind(listener, at); err != nil {
		return fmt.Errorf("foreign: bind: %w", err)
	}
	if err := unix.Listen(listener, count); err != nil {
		return fmt.Errorf("foreign: listen: %w", err)
	}
	if at, err = unix.Getsockname(listener); err != nil {
		return fmt.Errorf("foreign: %w", err)
	}
	for i := range count {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return fmt.Errorf("foreign: socket %d: %w", i, err)
		}
		if err := unix.Connect(fd, at); err != nil {
			return fmt.Errorf("foreign: connection %d: %w", i, err)
		}
	}
	if _, err := fmt.Fprintln(out, count); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
