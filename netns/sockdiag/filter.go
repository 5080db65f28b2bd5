package sockdiag

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Where the event filter finds its fields: the program sees the netlink header first. Loads turn network order round.
const (
	skbSport = unix.SizeofNlMsghdr + msgSport
	skbDport = unix.SizeofNlMsghdr + msgDport
	skbDst   = unix.SizeofNlMsghdr + msgDst

	maxFilterPorts = 1 << 10
	accept         = 1 << 16 // bytes to keep: all
)

// FilterListeners lets only the deaths of listeners pass, and of sockets that were bound and did not listen: the kernel
// tells the two apart no more. Other sockets' deaths are dropped before they are queued, and wake nobody.
func (w *Watcher) FilterListeners() error { return w.FilterPorts(nil) }

// FilterPorts lets pass, beside the listeners of every port, the deaths of connections whose local port is one of
// ports. Events that were queued under an earlier filter still come.
func (w *Watcher) FilterPorts(ports []uint16) error {
	if len(ports) > maxFilterPorts {
		return fmt.Errorf("sockdiag: filter of %d ports, more than %d", len(ports), maxFilterPorts)
	}
	program := filter(ports)
	var attachErr error
	err := w.conn.Control(func(fd uintptr) {
		attachErr = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
	if err == nil {
		err = attachErr
	}
	if err != nil {
		return fmt.Errorf("sockdiag: event filter: %w", err)
	}
	return nil
}

// filter is a classic BPF program. A listener has a local port, no remote port and no remote address; a socket that
// never was bound has no local port; a connection that nobody accepted, and one that failed, have lost their remote
// port, yet keep the remote address (tcp_disconnect).
func filter(ports []uint16) []unix.SockFilter {
	program := []unix.SockFilter{load(unix.BPF_H, skbSport), jumpIf(0, 0, 1), verdict(0)}
	for _, port := range ports {
		program = append(program, jumpIf(uint32(port), 0, 1), verdict(accept))
	}
	return append(program,
		load(unix.BPF_H, skbDport), jumpIf(0, 0, 8),
		load(unix.BPF_W, skbDst), jumpIf(0, 0, 6),
		load(unix.BPF_W, skbDst+4), jumpIf(0, 0, 4),
		load(unix.BPF_W, skbDst+8), jumpIf(0, 0, 2),
		load(unix.BPF_W, skbDst+12), jumpIf(0, 1, 0),
		verdict(0), verdict(accept))
}

func load(size uint16, offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_ABS | size, K: offset}
}

// jumpIf skips yes instructions where the loaded value is k, else no instructions.
func jumpIf(k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func verdict(keep uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: keep}
}
