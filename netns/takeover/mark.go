package takeover

import (
	"context"
	"net"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A relay that dials a Service address whose last endpoint is the own pod would meet itself, for ever. So each dial
// bears a mark that survives NAT and needs no privilege: a DSCP of 1. ECN's two bits are the network's.
const (
	mark     = 0x04
	markMask = 0xfc
)

// markSYN is a net.Dialer's ControlContext.
func markSYN(_ context.Context, network, _ string, raw syscall.RawConn) error {
	var inner error
	err := raw.Control(func(fd uintptr) { inner = setTOS(int(fd), strings.HasSuffix(network, "6"), mark) })
	if err != nil {
		return err
	}
	return inner
}

// unmark lets the relayed bytes travel as any others: only the SYN needs the mark, and DSCP 1 is "lower effort" (RFC 8622).
func unmark(c *net.TCPConn, v6 bool) error {
	return control(c, func(fd int) error { return setTOS(fd, v6, 0) })
}

func setTOS(fd int, v6 bool, tos int) error {
	if v6 {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, tos)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, tos)
}

// marked tells whether the SYN of an accepted connection bore the mark. It can be asked once: the kernel frees the SYN.
// A SYN that was not kept (SYN cookies) counts as unmarked.
func marked(c *net.TCPConn) bool {
	var syn [256]byte // the kernel refuses to cut it: IP and TCP headers are at most 60 bytes each
	var n int
	err := control(c, func(fd int) (err error) {
		n, err = savedSYN(fd, syn[:])
		return err
	})
	return err == nil && synMarked(syn[:n])
}

// savedSYN reads TCP_SAVED_SYN (Linux 4.2): the SYN from its IP header on.
func savedSYN(fd int, b []byte) (int, error) {
	n := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_SAVED_SYN,
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// synMarked reads the mark from a packet that begins with its IP header.
func synMarked(packet []byte) bool {
	if len(packet) < 2 {
		return false
	}
	switch packet[0] >> 4 {
	case 4: // RFC 791: version, IHL; type of service
		return packet[1]&markMask == mark
	case 6: // RFC 8200: version, the traffic class across a byte's border, flow label
		return (packet[0]<<4|packet[1]>>4)&markMask == mark
	}
	return false
}
