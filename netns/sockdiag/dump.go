package sockdiag

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// dumpTimeout bounds the wait for one answer of the kernel, which takes milliseconds.
const dumpTimeout = 2 * time.Second

// The kernel puts at most 32 KiB of sockets into one answer (netlink_dump), and that much only if the reader offers it.
const dumpBuffer = 32 << 10

// ErrInterrupted tells that sockets came or went in a way that made the dump incomplete. Every socket that the kernel
// gave has been reported.
var ErrInterrupted = errors.New("the dump was interrupted by a change")

// Dumper lists the sockets of one network namespace. It must not be used by two goroutines at once.
type Dumper struct {
	fd     int
	seq    uint32
	req    []byte
	buf    []byte
	socket Socket
}

// Open makes a Dumper for the network namespace of the calling thread. Where sock_diag is forbidden the error is
// fs.ErrPermission, here or in Dump: then ProcDump is what remains.
func Open() (*Dumper, error) {
	fd, err := open(0)
	if err != nil {
		return nil, fmt.Errorf("sockdiag: %w", err)
	}
	timeout := unix.NsecToTimeval(int64(dumpTimeout))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("sockdiag: receive timeout: %w", err)
	}
	return &Dumper{fd: fd, buf: make([]byte, dumpBuffer)}, nil
}

// Close releases the netlink socket.
func (d *Dumper) Close() error { return unix.Close(d.fd) }

// Dump calls fn with each socket that q chooses until fn returns false. The Socket is valid during the call only. One
// call of the kernel may last 2 s at most, else the error is os.ErrDeadlineExceeded; after ErrInterrupted the dump is
// as good as it could be; after any other error the Dumper should be closed.
func (d *Dumper) Dump(q Query, fn func(*Socket) bool) error {
	if len(q.Ports) > maxDumpPorts {
		return fmt.Errorf("sockdiag: dump of %d ports, more than %d", len(q.Ports), maxDumpPorts)
	}
	if err := d.dump(q, fn); err != nil {
		return fmt.Errorf("sockdiag: dump: %w", err)
	}
	return nil
}

func (d *Dumper) dump(q Query, fn func(*Socket) bool) error {
	d.seq++
	d.req = appendRequest(d.req[:0], q, d.seq)
	if _, err := unix.Write(d.fd, d.req); err != nil {
		return err
	}
	a := answers{seq: d.seq, fn: fn, socket: &d.socket}
	for !a.done {
		n, err := d.receive()
		if err == nil {
			err = a.read(d.buf[:n])
		}
		if err != nil {
			return err
		}
	}
	if a.interrupted {
		return ErrInterrupted
	}
	return nil
}

// answers is what one request is answered with.
type answers struct {
	seq         uint32
	fn          func(*Socket) bool // nil once it wants no more
	socket      *Socket
	done        bool
	interrupted bool
}

// read reads the messages of one datagram. The dump is read to its end even when fn wants no more: a second request on
// the socket would meet EBUSY.
func (a *answers) read(b []byte) error {
	for len(b) >= unix.SizeofNlMsghdr {
		m, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		if m.seq != a.seq {
			continue // the rest of a dump that timed out
		}
		a.interrupted = a.interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
		switch {
		case m.kind == unix.NLMSG_DONE || m.kind == unix.NLMSG_ERROR:
			a.done = true
			return status(m.payload)
		case m.kind == getSock && a.fn != nil:
			if err := decode(m.payload, a.socket); err != nil {
				return err
			}
			if !a.fn(a.socket) {
				a.fn = nil
			}
		}
	}
	return nil
}

// receive reads one datagram. With a receive timeout set, a signal ends recv with EINTR even under SA_RESTART, and the
// Go runtime sends itself signals.
func (d *Dumper) receive() (int, error) {
	for start := time.Now(); ; {
		n, err := unix.Read(d.fd, d.buf)
		switch {
		case err == nil:
			return n, nil
		case err == unix.EAGAIN, err == unix.EINTR && time.Since(start) > dumpTimeout:
			return 0, fmt.Errorf("no answer from the kernel: %w", os.ErrDeadlineExceeded)
		case err != unix.EINTR:
			return 0, err
		}
	}
}
