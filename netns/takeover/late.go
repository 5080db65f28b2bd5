package takeover

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// hearLate passes on what a relayed client sends until its first request, which came too late to be answered here, has
// told what it is. It reports whether that is a health check: then what tells it is not passed on. It ends with the
// client's bytes, or their 8 KiB, too.
func (t *Takeover) hearLate(l *link) (isCheck bool) {
	if !readable(l.client) { // a client may be silent for hours: it gets its buffer when it speaks
		return false
	}
	h := t.borrowHead()
	defer t.heads.Put(h)
	for h.n < len(h.buf) {
		n, err := l.client.Read(h.buf[h.n:])
		if err != nil {
			return false
		}
		seen := h.buf[h.n : h.n+n]
		h.n += n
		v := classify(h.buf[:h.n], t.opts.HealthPaths)
		if v.isCheck() {
			t.checks.Add(1)
			t.conns.failed(l)
			return true
		}
		if _, err := l.peer.Write(seen); err != nil || v.kind != undecided {
			return false
		}
	}
	return false
}

// readable waits until there is something to read: bytes, the end, or an error, which it leaves to the reader.
func readable(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var b [1]byte
	return raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK)
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	}) == nil
}
