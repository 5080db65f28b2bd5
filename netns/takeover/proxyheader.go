package takeover

import (
	"bytes"
	"encoding/binary"
)

// The PROXY protocol's header (https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt, 2.1 and 2.2).
const (
	proxyV1    = "PROXY "
	maxProxyV1 = 107 // with its CRLF
	proxyV2    = "\r\n\r\n\x00\r\nQUIT\n"
	minProxyV2 = len(proxyV2) + 4 // version and command, family, two bytes of length
)

// skipProxyHeader cuts off the header that Envoy's upstream_proxy_protocol transport socket sends before all else, its
// health checks' too. more: whether there is one is not known yet, or it has not come whole.
func skipProxyHeader(b []byte) (rest []byte, more bool) {
	switch {
	case agrees(b, proxyV1):
		line, _, whole := bytes.Cut(b[:min(len(b), maxProxyV1)], []byte("\r\n"))
		switch {
		case !whole:
			return b, len(b) < maxProxyV1
		case namesFamily(line[len(proxyV1):]):
			return b[len(line)+2:], false
		}
	case agrees(b, proxyV2):
		if len(b) < minProxyV2 {
			return b, true
		}
		n := minProxyV2 + int(binary.BigEndian.Uint16(b[minProxyV2-2:]))
		switch {
		case b[len(proxyV2)]>>4 != 2:
		case len(b) < n:
			return b, true
		default:
			return b[n:], false
		}
	}
	return b, false
}

func namesFamily(line []byte) bool {
	family, _, _ := bytes.Cut(line, []byte{' '})
	switch string(family) {
	case "TCP4", "TCP6", "UNKNOWN":
		return true
	}
	return false
}
