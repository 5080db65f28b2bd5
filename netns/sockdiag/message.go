package sockdiag

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes and offsets of struct inet_diag_msg (include/uapi/linux/inet_diag.h). It is in native byte order but for
// ports and addresses.
const (
	msgLen = 72

	msgFamily  = 0
	msgState   = 1
	msgSport   = 4
	msgDport   = 6
	msgSrc     = 8
	msgDst     = 24
	msgCookie  = 44
	msgRQueue  = 56
	msgWQueue  = 60
	msgInode   = 68
	attrHeader = 4

	attrInfo    = 2  // INET_DIAG_INFO
	attrV6Only  = 11 // INET_DIAG_SKV6ONLY
	attrTypeMax = 0x3fff
)

// Offsets in struct tcp_info (include/uapi/linux/tcp.h). Newer kernels only append.
const (
	infoLastDataSent  = 44
	infoLastDataRecv  = 52
	infoRoundTrip     = 68
	infoBytesAcked    = 120
	infoBytesReceived = 128
	infoDataSegsIn    = 152
	infoDataSegsOut   = 156
	infoLen           = 160 // with data_segs_out: Linux 4.6
)

var errMalformed = errors.New("sockdiag: malformed message from the kernel")

// decode fills s from an inet_diag_msg and its attributes. A tcp_info shorter than what we read counts as none:
// a zero that only means "not told" must not pass for "no data came".
func decode(b []byte, s *Socket) error {
	if len(b) < msgLen {
		return errMalformed
	}
	*s = Socket{
		Family: b[msgFamily],
		State:  State(b[msgState]),
		Cookie: uint64(ne32(b[msgCookie:])) | uint64(ne32(b[msgCookie+4:]))<<32,
		RQueue: ne32(b[msgRQueue:]),
		WQueue: ne32(b[msgWQueue:]),
		Inode:  ne32(b[msgInode:]),
	}
	src, ok := address(s.Family, b[msgSrc:msgSrc+16])
	dst, _ := address(s.Family, b[msgDst:msgDst+16])
	if !ok {
		return errMalformed
	}
	s.Local = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b[msgSport:]))
	s.Remote = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[msgDport:]))
	return decodeAttrs(b[msgLen:], s)
}

func decodeAttrs(b []byte, s *Socket) error {
	for len(b) >= attrHeader {
		n := int(binary.NativeEndian.Uint16(b))
		if n < attrHeader || n > len(b) {
			return errMalformed
		}
		value := b[attrHeader:n]
		switch binary.NativeEndian.Uint16(b[2:]) & attrTypeMax {
		case attrInfo:
			decodeInfo(value, s)
		case attrV6Only:
			s.V6Only = len(value) > 0 && value[0] != 0
		}
		b = b[min(align(n), len(b)):]
	}
	return nil
}

func decodeInfo(b []byte, s *Socket) {
	if len(b) < infoLen {
		return
	}
	s.HasInfo = true
	s.Info = Info{
		LastDataSent:  time.Duration(ne32(b[infoLastDataSent:])) * time.Millisecond,
		LastDataRecv:  time.Duration(ne32(b[infoLastDataRecv:])) * time.Millisecond,
		RoundTrip:     time.Duration(ne32(b[infoRoundTrip:])) * time.Microsecond,
		BytesAcked:    binary.NativeEndian.Uint64(b[infoBytesAcked:]),
		BytesReceived: binary.NativeEndian.Uint64(b[infoBytesReceived:]),
		DataSegsIn:    ne32(b[infoDataSegsIn:]),
		DataSegsOut:   ne32(b[infoDataSegsOut:]),
	}
}

func address(family uint8, b []byte) (netip.Addr, bool) {
	switch family {
	case unix.AF_INET:
		return netip.AddrFrom4([4]byte(b[:4])), true
	case unix.AF_INET6:
		return netip.AddrFrom16([16]byte(b[:16])).Unmap(), true
	}
	return netip.Addr{}, false
}
