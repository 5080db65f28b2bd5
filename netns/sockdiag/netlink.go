package sockdiag

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// open makes a sock_diag socket that hears the kernel alone: a connected netlink socket takes no unicast from others.
func open(flags int) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|flags, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("connect: %w", err)
	}
	return fd, nil
}

// message is a netlink message without its header.
type message struct {
	kind, flags uint16
	seq         uint32
	payload     []byte
}

// next cuts the first message off a datagram that has at least a header left.
func next(b []byte) (m message, rest []byte, err error) {
	n := int(ne32(b))
	if n < unix.SizeofNlMsghdr || n > len(b) {
		return message{}, nil, errMalformed
	}
	m = message{
		kind:    binary.NativeEndian.Uint16(b[4:]),
		flags:   binary.NativeEndian.Uint16(b[6:]),
		seq:     ne32(b[8:]),
		payload: b[unix.SizeofNlMsghdr:n],
	}
	return m, b[min(align(n), len(b)):], nil
}

// status is the error number that NLMSG_ERROR and NLMSG_DONE begin with, negative.
func status(payload []byte) error {
	if len(payload) < 4 {
		return nil
	}
	if errno := int32(ne32(payload)); errno < 0 {
		return unix.Errno(-errno)
	}
	return nil
}

func ne32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }

// align rounds up to the 4 bytes that netlink messages and attributes are padded to.
func align(n int) int { return (n + 3) &^ 3 }
