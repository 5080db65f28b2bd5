package takeover

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2/hpack"
)

// Each answer fails the host on Envoy's first look, whatever its thresholds: a status that the check does not expect, and
// for HTTP the header that fails it at once. It also ends the connection: one answer is all there is.
const (
	immediateFail = "x-envoy-immediate-health-check-fail"
	answerHTTP1   = "HTTP/1.1 503 Service Unavailable\r\n" +
		immediateFail + ": 1\r\n" +
		"content-length: 0\r\n" +
		"connection: close\r\n" +
		"\r\n"
)

const (
	answerTime = time.Second
	answerRead = 64 << 10 // of what the client may still send: a check's body
)

// answer fails a health check; the caller lets its connection linger then.
func answer(c *net.TCPConn, v verdict) error {
	if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := c.Write(v.answer()); err != nil {
		return err
	}
	return c.CloseWrite()
}

// answer is the bytes that fail a check.
func (v verdict) answer() []byte {
	switch v.kind {
	case checkHTTP2:
		return answerHTTP2(v.stream, [][2]string{{":status", "503"}, {immediateFail, "1"}})
	case checkGRPC:
		// Trailers alone (gRPC over HTTP/2, "Responses"): no DATA, so no window of the client's is in the way. To Envoy's
		// checker any status but OK is an answer that fails, not a fault of the network which it would count to a threshold
		// (health_checker_impl.cc, onRpcComplete). 14 is UNAVAILABLE.
		return answerHTTP2(v.stream, [][2]string{
			{":status", "200"}, {"content-type", "application/grpc"}, {immediateFail, "1"},
			{"grpc-status", "14"}, {"grpc-message", "the pod is ending"},
		})
	}
	return []byte(answerHTTP1)
}

// answerHTTP2 is all that a server says: its preface, the acknowledgement of the client's, the answer, and the end.
func answerHTTP2(stream uint32, fields [][2]string) []byte {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0) // whatever table the client's SETTINGS allow
	for _, f := range fields {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // a buffer takes all
	}
	b := appendFrame(nil, frameSettings, 0, 0, nil)
	b = appendFrame(b, frameSettings, flagAck, 0, nil)
	b = appendFrame(b, frameHeaders, flagEndStream|flagEndHeaders, stream, block.Bytes())
	goAway := binary.BigEndian.AppendUint32(nil, stream) // the last stream that was looked at
	return appendFrame(b, frameGoAway, 0, 0, append(goAway, 0, 0, 0, 0))
}

func appendFrame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, payload...)
}

// linger reads what the client has sent until it closes too, or the time is up: bytes left unread at the close would make
// the kernel send a RST, and that may overtake the answer in the client.
func linger(c *net.TCPConn) {
	_, _ = io.Copy(io.Discard, io.LimitReader(c, answerRead))
}
