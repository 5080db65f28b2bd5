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
var ErrInterrupted = errors.New("sockdiag: the dump was interrupted by a change")

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

// Dump calls fn with each socket that q chooses, IPv4 ones first, until fn returns false. The Socket is valid during
// the call only. One call of the kernel may last 2 s at most, else the error is os.ErrDeadlineExceeded; after
// ErrInterrupted the dump is as good as it could be; after any other error the Dumper should be closed.
func (d *Dumper) Dump(q Query, fn func(*Socket) bool) error {
	if len(q.Ports) > maxDumpSet {
		return fmt.Errorf("sockdiag: dump of %d ports, more than %d", len(q.Ports), maxDumpSet)
	}
	more, interrupted := true, false
	for _, family := range [...]uint8{unix.AF_INET, unix.AF_INET6} {
		if !more {
			break
		}
		err := d.dump(q, family, func(s *Socket) bool {
			more = more && fn(s)
			return more
		})
		switch {
		case errors.Is(err, ErrInterrupted):
			interrupted = true
		case family == unix.AF_INET6 && errors.Is(err, unix.ENOENT):
			// A kernel without IPv6.
		case err != nil:
			return fmt.Errorf("sockdiag: dump: %w", err)
		}
	}
	if interrupted {
		return ErrInterrupted
	}
	return nil
}

func (d *Dumper) dump(q Query, family uint8, fn func(*Socket) bool) error {
	d.seq++
	d.req = appendRequest(d.req[:0], q, family, d.seq)
	if _, err := unix.Write(d.fd, d.req); err != nil {
		return err
	}
	interrupted := false
	for {
		n, err := d.receive()
		if err != nil {
			return err
		}
		done, err := d.answer(d.buf[:n], &interrupted, fn)
		if err != nil {
			return err
		}
		if done && interrupted {
			return ErrInterrupted
		}
		if done {
			return nil
		}
	}
}

// answer reads the messages of one datagram. The dump is read to its end even when fn wants no more: a second request
// on the socket would meet EBUSY.
func (d *Dumper) answer(b []byte, interrupted *bool, fn func(*Socket) bool) (done bool, err error) {
	more := true
	for len(b) >= unix.SizeofNlMsghdr {
		var m message
		if m, b, err = next(b); err != nil {
			return false, err
		}
		if m.seq != d.seq {
			continue // the rest of a dump that timed out
		}
		if m.flags&unix.NLM_F_DUMP_INTR != 0 {
			*interrupted = true
		}
		switch m.kind {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			return true, status(m.payload)
		case unix.SOCK_DIAG_BY_FAMILY:
			if !more {
				continue
			}
			if err := decode(m.payload, &d.socket); err != nil {
				return false, err
			}
			more = fn(&d.socket)
		}
	}
	return false, nil
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
