package takeover

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How long a connection's first bytes are waited for. A server that speaks first costs its client one firstByte.
const (
	firstByte = 50 * time.Millisecond  // from the accept, and from the last byte of an incomplete head
	wholeHead = 200 * time.Millisecond // from the accept
	maxHead   = 8 << 10                // longer heads are relayed
)

// head is where first bytes are looked at.
type head struct {
	buf [maxHead]byte
	n   int
	err error
}

// sniff judges a connection by its first bytes and leaves them unread, so that a relay's splice finds them.
func (t *Takeover) sniff(c *net.TCPConn) verdict {
	h, ok := t.heads.Get().(*head)
	if !ok {
		h = new(head)
	}
	defer t.heads.Put(h)
	h.n, h.err = 0, nil
	raw, err := c.SyscallConn()
	if err != nil {
		return pass
	}
	defer c.SetReadDeadline(time.Time{})
	for start := time.Now(); ; {
		wait := min(firstByte, wholeHead-time.Since(start))
		if wait <= 0 || c.SetReadDeadline(time.Now().Add(wait)) != nil {
			return pass
		}
		switch grew := h.grow(raw); {
		case h.err != nil:
			return lost
		case !grew:
			return pass
		}
		if v := classify(h.buf[:h.n], t.opts.HealthPaths); v != undecided {
			return v
		}
		if h.n == len(h.buf) {
			return pass
		}
	}
}

// grow waits until more bytes than before can be looked at; false: none will come, or none came in time.
func (h *head) grow(raw syscall.RawConn) bool {
	before := h.n
	if err := raw.Read(h.peek); err != nil {
		return false
	}
	return h.err == nil && h.n > before
}

// peek reports whether there is something new: bytes, the end before any byte, an error.
// An end after some bytes looks like nothing new, and is left to the deadline.
func (h *head) peek(fd uintptr) bool {
	n, _, err := unix.Recvfrom(int(fd), h.buf[:], unix.MSG_PEEK)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return false
	}
	if err != nil || n == 0 {
		h.err = err
		return true
	}
	if n <= h.n {
		return false
	}
	h.n = n
	return true
}
