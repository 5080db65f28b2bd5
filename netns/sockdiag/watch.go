package sockdiag

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The receive buffer that is asked for; net.core.rmem_max caps it.
const watchBuffer = 16 << 20

// Event is the death of a socket, or the loss of such events.
type Event struct {
	// Lost tells that the kernel dropped events, for want of room, and that it has stopped: a dump made from now on
	// shows what happened. Nothing else in the Event is set, but At.
	Lost bool
	// Listener is true where the socket listened, or was bound and did nothing: the kernel reports both alike. An
	// unaccepted connection, which has no remote port either, keeps its remote address, and is no listener. The port
	// can be free before: half-open connections delay the event by up to their timer, a second, and after shutdown on
	// a listener it comes at the close only.
	Listener bool
	// Socket is as it died, with the last tcp_info (a listener's is void). Its State is Closed, its Inode 0; V6Only is
	// not told.
	Socket Socket
	// At is when the event was read.
	At time.Time
}

// Watcher hears of the deaths of TCP sockets in one network namespace.
type Watcher struct {
	file *os.File
	conn syscall.RawConn
	buf  []byte
}

// Watch makes a Watcher for the network namespace of the calling thread. Events are kept from now on, as far as the
// buffer goes, and told by Run. A death of just before may be among them: the kernel tells from a work queue, and keeps
// deaths of every namespace for it while any process of the machine listens (netlink_has_listeners).
func Watch() (*Watcher, error) {
	fd, err := open(unix.SOCK_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("sockdiag: watch: %w", err)
	}
	w := &Watcher{file: os.NewFile(uintptr(fd), "sock_diag"), buf: make([]byte, 4<<10)}
	if w.conn, err = w.file.SyscallConn(); err == nil {
		err = join(fd)
	}
	if err != nil {
		w.file.Close()
		return nil, fmt.Errorf("sockdiag: watch: %w", err)
	}
	return w, nil
}

func join(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, watchBuffer); err != nil {
		return fmt.Errorf("receive buffer: %w", err)
	}
	for _, group := range [...]int{unix.SKNLGRP_INET_TCP_DESTROY, unix.SKNLGRP_INET6_TCP_DESTROY} {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			return fmt.Errorf("join group %d: %w", group, err)
		}
	}
	return nil
}

// Close ends a Run, too.
func (w *Watcher) Close() error { return w.file.Close() }

// Run tells fn each event, in the kernel's order, until ctx ends or the Watcher is closed; then it returns nil. While
// nothing dies it sleeps, with no timer. It must not run twice at once.
func (w *Watcher) Run(ctx context.Context, fn func(Event)) error {
	if err := w.file.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("sockdiag: events: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { w.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var failure error
	lost := false
	// Read itself fails in two ways only, the deadline and Close: both are the end that was asked for.
	_ = w.conn.Read(func(fd uintptr) (done bool) {
		for ctx.Err() == nil && failure == nil {
			n, err := unix.Read(int(fd), w.buf)
			switch err {
			case nil:
				failure = w.tell(w.buf[:n], fn)
			case unix.ENOBUFS:
				// Told once, and from then on the kernel drops events, untold, until the queue is empty
				// (NETLINK_S_CONGESTED). A dump made before that would miss deaths that nobody tells.
				lost = true
			case unix.EAGAIN:
				if !lost {
					return false // wait, in the runtime's poller
				}
				lost = false
				fn(Event{Lost: true, At: time.Now()})
			case unix.EINTR:
			default:
				failure = err
			}
		}
		return true
	})
	if failure != nil {
		return fmt.Errorf("sockdiag: events: %w", failure)
	}
	return nil
}

func (w *Watcher) tell(b []byte, fn func(Event)) error {
	event := Event{At: time.Now()}
	for len(b) >= unix.SizeofNlMsghdr {
		m, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		if m.kind != unix.SOCK_DIAG_BY_FAMILY {
			continue
		}
		if err := decode(m.payload, &event.Socket); err != nil {
			return err
		}
		event.Listener = wasListener(&event.Socket)
		fn(event)
	}
	return nil
}

// wasListener says what the event filter says: see there.
func wasListener(s *Socket) bool {
	return s.Local.Port() != 0 && s.Remote.Port() == 0 && s.Remote.Addr().IsUnspecified()
}
