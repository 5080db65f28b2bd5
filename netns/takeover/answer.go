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

// answer fails a health check and closes the connection so that the answer arrives: bytes left unread at the close
// would make the kernel send a RST, and that may overtake the answer in the client.
func answer(c *net.TCPConn) error {
	if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(checkAnswer)); err != nil {
		return err
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c, answerRead)) // until the client closes too, or the time is up
	return c.Close()
}
