package takeover

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// state is where a port stands.
type state uint8

const (
	free      state = iota // not ours; a socket may wait for it
	listening              // ours, and nobody accepts yet
	taken                  // ours, with a loop that accepts
)

// port is one armed listener. Takeover.mu guards it.
type port struct {
	listener Listener
	address  unix.Sockaddr
	state    state
	fd       int // while free or listening: the socket; -1: none
	since    time.Time
	ln       *net.TCPListener
	done     chan struct{} // closed with ln

	explained int64 // the kick after which it was looked at why the port is still in use
	problem   error // what was said last
}

func newPort(l Listener) *port {
	return &port{listener: l, address: sockaddr(l.Addr), fd: -1}
}

// try binds and listens. What is done here lies between the port's becoming free and the first SYN that is not refused:
// two calls, no allocation.
func (p *port) try(sys *system) error {
	if p.state != free {
		return nil
	}
	if p.fd < 0 {
		fd, err := sys.socket(p.listener)
		if err != nil {
			return err
		}
		p.fd = fd
	}
	if err := sys.bind(p.fd, p.address); err != nil {
		return err // the socket is as before: bound to nothing
	}
	if err := sys.listen(p.fd, backlog); err != nil {
		p.discard() // bound, it would keep an application without SO_REUSEADDR from its port
		return err
	}
	p.state, p.since = listening, time.Now()
	return nil
}

// adopt makes a listener of the socket.
func (p *port) adopt(sys *system) (*net.TCPListener, error) {
	fd := p.fd
	p.fd = -1
	ln, err := sys.adopt(fd)
	if err != nil {
		p.state = free
		return nil, err
	}
	p.state, p.ln, p.done = taken, ln, make(chan struct{})
	p.problem = nil
	return ln, nil
}

// drop closes what the port holds; it reports whether the port was taken.
func (p *port) drop() bool {
	was := p.state
	if p.ln != nil {
		close(p.done)
		p.ln.Close()
		p.ln = nil
	}
	p.discard()
	p.state = free
	return was == taken
}

func (p *port) discard() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// patience is how long after a listener's death a port may be busy before that is worth a line.
const patience = time.Second

// overdue tells, once for each kick, that the port is still in use long after it. kick is in nanoseconds of Unix time.
func (p *port) overdue(err error, kick int64) bool {
	if !errors.Is(err, unix.EADDRINUSE) || kick == p.explained || time.Since(time.Unix(0, kick)) < patience {
		return false
	}
	p.explained = kick
	return true
}

// complain says, once a change, what keeps the port from us. That it is in use is no complaint: the application listens.
func (p *port) complain(log *slog.Logger, err error) {
	if err == nil || errors.Is(err, unix.EADDRINUSE) || p.problem != nil && errors.Is(err, p.problem) {
		return
	}
	p.problem = root(err)
	if errors.Is(err, unix.EACCES) {
		log.Error("port cannot be taken: an unprivileged process may not bind it; "+
			"set the pod's sysctl net.ipv4.ip_unprivileged_port_start to this port or less", "address", p.listener.Addr)
		return
	}
	log.Error("port cannot be taken yet", "address", p.listener.Addr, "error", err)
}

// root is the errno of an error, by which errors compare, or the error itself.
func root(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
