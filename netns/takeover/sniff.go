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

// borrowHead returns an empty head, to be put back.
func (t *Takeover) borrowHead() *head {
	h, ok := t.heads.Get().(*head)
	if !ok {
		h = new(head)
	}
	h.n, h.err = 0, nil
	return h
}

// sniff judges a connection by its first bytes and leaves them unread, so that a relay's splice finds them. Undecided:
// what came in time does not tell.
func (t *Takeover) sniff(c *net.TCPConn) verdict {
	h := t.borrowHead()
	defer t.heads.Put(h)
	raw, err := c.SyscallConn()
	if err != nil {
		return verdict{kind: pass}
	}
	defer c.SetReadDeadline(time.Time{})
	for start := time.Now(); ; {
		wait := min(firstByte, wholeHead-time.Since(start))
		if wait <= 0 || c.SetReadDeadline(time.Now().Add(wait)) != nil {
			return verdict{}
		}
		switch grew := h.grow(raw); {
		case h.err != nil:
			return verdict{kind: lost}
		case !grew:
			return verdict{}
		}
		if v := classify(h.buf[:h.n], t.opts.HealthPaths); v.kind != undecided {
			return v
		}
		if h.n == len(h.buf) {
			return verdict{kind: pass}
		}
	}
}

// grow waits until more bytes than before can be looked at; false: none will come, or none came in time.
func (h *head) grow(raw syscall.RawConn) bool {
	before := h.n
	if raw.Read(h.peek) != nil {
		// Time is up, perhaps because this process got no time: what has come meanwhile has come in time.
		if raw.Control(func(fd uintptr) { h.peek(fd) }) != nil {
			return false
		}
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
