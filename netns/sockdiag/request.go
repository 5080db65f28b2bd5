package sockdiag

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Query chooses sockets, in the kernel: the others are not copied.
type Query struct {
	// States is the set of states; 0 stands for all. SynRecv brings half-open connections too.
	// A query for Listen alone never walks the hash of connections, which is the whole machine's.
	States States
	// Ports are local ports; none stands for all.
	Ports []uint16
}

func (q Query) states() States {
	if q.States == 0 {
		return Of(NewSynRecv)<<1 - Of(Established)
	}
	if q.States&Of(SynRecv) != 0 {
		// Half-open connections are NEW_SYN_RECV in the hash, though the kernel reports them as SYN_RECV.
		return q.States | Of(NewSynRecv)
	}
	return q.States
}

// Of include/uapi/linux/inet_diag.h.
const (
	getSock      = 18 // TCPDIAG_GETSOCK
	reqLen       = 60 // struct inet_diag_req
	reqExt       = 3
	reqStates    = 52
	attrBytecode = 1 // INET_DIAG_REQ_BYTECODE
	extInfo      = 1 << (attrInfo - 1)

	bcJmp     = 1  // INET_DIAG_BC_JMP
	bcSportEq = 11 // INET_DIAG_BC_S_EQ: Linux 4.16
	bcOpLen   = 4
	bcPortLen = 2 * bcOpLen // the operation, and a second one that holds the port
	bcPerPort = bcPortLen + bcOpLen

	maxDumpPorts = 1 << 12 // the length of the attribute is 16 bits
)

// appendRequest appends a dump request to b. It is of the older kind, TCPDIAG_GETSOCK: that one walks the hash once for
// both address families (inet_diag_dump_compat), SOCK_DIAG_BY_FAMILY once for each. The walk is what a dump costs.
func appendRequest(b []byte, q Query, seq uint32) []byte {
	start := len(b)
	b = append(b, make([]byte, unix.SizeofNlMsghdr+reqLen)...)
	req := b[start+unix.SizeofNlMsghdr:]
	req[reqExt] = extInfo // SKV6ONLY comes unasked, for listeners (inet_diag_msg_attrs_fill)
	binary.NativeEndian.PutUint32(req[reqStates:], uint32(q.states()))
	if len(q.Ports) > 0 {
		b = appendBytecode(b, q.Ports)
	}
	head := b[start:]
	binary.NativeEndian.PutUint32(head, uint32(len(head)))
	binary.NativeEndian.PutUint16(head[4:], getSock)
	binary.NativeEndian.PutUint16(head[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	binary.NativeEndian.PutUint32(head[8:], seq)
	return b
}

// appendBytecode appends the attribute that lets pass the sockets whose local port is one of ports. An operation adds
// yes or no to the place where it stands: the end of the program accepts, 4 bytes beyond it rejects.
//
//	port == p0 ? next : over the jump; jump to the end; port == p1 ? ...; port == pn ? end : end + 4
func appendBytecode(b []byte, ports []uint16) []byte {
	left := len(ports)*bcPerPort - bcOpLen
	b = binary.NativeEndian.AppendUint16(b, uint16(attrHeader+left))
	b = binary.NativeEndian.AppendUint16(b, attrBytecode)
	for _, port := range ports {
		b = appendOp(b, bcSportEq, bcPortLen, bcPerPort)
		b = appendOp(b, 0, 0, port)
		left -= bcPortLen
		if left == 0 {
			break
		}
		b = appendOp(b, bcJmp, bcOpLen, uint16(left))
		left -= bcOpLen
	}
	return b
}

// appendOp appends a struct inet_diag_bc_op.
func appendOp(b []byte, code, yes uint8, no uint16) []byte {
	return binary.NativeEndian.AppendUint16(append(b, code, yes), no)
}
