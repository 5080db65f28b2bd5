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
	ln       *net.TCPListener // nil: none could be made yet. While free it is bound to nothing
	fd       int              // ln's
	since    time.Time
	done     chan struct{} // while taken; closed with ln

	explained int64 // the kick after which it was looked at why the port is still in use
	said      bool  // and why was said
	problem   error // what was said last
}

func newPort(l Listener) *port {
	return &port{listener: l, address: sockaddr(l.Addr)}
}

// prepare makes a listener of a socket that does not listen yet. It has then all that a takeover needs of what can be
// wanting: net.FileListener copies the descriptor, and looks at neither the socket's state nor, beyond its kind, its address.
func (p *port) prepare(sys *system) error {
	if p.ln != nil {
		return nil
	}
	return sys.spare.lend(func() error {
		fd, err := sys.socket(p.listener)
		if err != nil {
			return err
		}
		ln, err := sys.adopt(fd)
		if err != nil {
			return err
		}
		if err := control(ln, func(fd int) error { p.fd = fd; return nil }); err != nil {
			ln.Close()
			return err
		}
		p.ln = ln
		return nil
	})
}

// try binds and listens. What is done here lies between the port's becoming free and the first SYN that is not refused:
// two calls, no allocation.
func (p *port) try(sys *system) error {
	if p.state != free {
		return nil
	}
	if err := p.prepare(sys); err != nil {
		return err
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

// take makes a port that listens one that is taken.
func (p *port) take() {
	p.state, p.done, p.problem, p.said = taken, make(chan struct{}), nil, false
}

// drop ceases to listen; it reports whether the port was taken.
func (p *port) drop() bool {
	was := p.state
	switch was {
	case free:
		return false
	case taken:
		close(p.done)
	}
	p.discard()
	p.state = free
	return was == taken
}

func (p *port) discard() {
	if p.ln != nil {
		p.ln.Close()
		p.ln = nil
	}
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
