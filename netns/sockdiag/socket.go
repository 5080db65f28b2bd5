package sockdiag

import (
	"net/netip"
	"time"
)

// State is a TCP socket state as the kernel numbers them (include/net/tcp_states.h).
type State uint8

// The states of TCP sockets.
const (
	Established State = 1 + iota
	SynSent
	SynRecv
	FinWait1
	FinWait2
	TimeWait
	Closed
	CloseWait
	LastAck
	Listen
	Closing
	NewSynRecv
)

// States is a set of states: bit 1<<state.
type States uint32

// Of returns the set of the given states.
func Of(states ...State) States {
	var set States
	for _, s := range states {
		set |= 1 << s
	}
	return set
}

// Socket is one TCP socket, as a dump or its destroy event reports it.
type Socket struct {
	// Local and Remote are unmapped: the IPv4 client of a [::] listener has an IPv4 Remote. A listener's Remote has port 0.
	Local, Remote netip.AddrPort
	// Cookie identifies the socket for the machine's uptime; 0 where the source (/proc) does not tell.
	Cookie uint64
	// Inode is 0 of a connection that nobody has accepted yet, or that its application has closed.
	Inode uint32
	// Family is unix.AF_INET or unix.AF_INET6: the socket's own, before unmapping.
	Family uint8
	State  State
	// RQueue is the bytes received and not read by the application; of a listener the connections not yet accepted.
	// WQueue is the bytes sent and not acknowledged, or not yet sent (an unacknowledged FIN counts as one); of a listener the backlog.
	RQueue, WQueue uint32
	// V6Only is known of listeners in dumps only: destroy events carry no such attribute.
	V6Only bool
	// HasInfo is false where the kernel gave no tcp_info (/proc, TIME_WAIT).
	HasInfo bool
	Info    Info
}

// Info is the part of struct tcp_info that a drain needs.
type Info struct {
	// LastDataSent and LastDataRecv are ages at the moment of the report, in steps of a kernel jiffy (1–10 ms).
	// Before any data they are the connection's age.
	LastDataSent, LastDataRecv time.Duration
	// RoundTrip is the smoothed round-trip time, in steps of a microsecond.
	RoundTrip time.Duration
	// BytesReceived and BytesAcked count payload, what came and what the peer has acknowledged; a FIN adds one to each.
	BytesReceived, BytesAcked uint64
	// DataSegsIn and DataSegsOut count segments that carried payload; a FIN adds nothing.
	DataSegsIn, DataSegsOut uint32
}
