package takeover

import (
	"io"
	"net"
	"time"
)

// checkAnswer fails the host on Envoy's first look, whatever its thresholds: a status that the check does not expect, and
// the header that fails it at once. Envoy closes such a connection, so one answer a connection is all there is.
const checkAnswer = "HTTP/1.1 503 Service Unavailable\r\n" +
	"x-envoy-immediate-health-check-fail: 1\r\n" +
	"content-length: 0\r\n" +
	"connection: close\r\n" +
	"\r\n"

const (
	answerTime = time.Second
	answerRead = 64 << 10 // of what the client may still send: a check's body
)

// answer fails a health check; the caller lets its connection linger then.
func answer(c *net.TCPConn) error {
	if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, checkAnswer); err != nil {
		return err
	}
	return c.CloseWrite()
}

// linger reads what the client has sent until it closes too, or the time is up: bytes left unread at the close would make
// the kernel send a RST, and that may overtake the answer in the client.
func linger(c *net.TCPConn) {
	_, _ = io.Copy(io.Discard, io.LimitReader(c, answerRead))
}
