package takeover

import (
	"errors"
	"io"
	"net"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// side is one of the two connections of a relay.
type side struct {
	*net.TCPConn
	ended atomic.Bool // our FIN was sent to it
}

// outcome is how one direction of a relay ended.
type outcome uint8

const (
	clean  outcome = iota // the source's FIN was passed on
	broken                // the destination is gone
	cut                   // the source was reset, and so the destination
)

// joined is how a relay ended.
type joined struct {
	shunned bool // the server reset its connection before it had sent a byte
	reset   bool // the client was there still, and was reset for the server's sake
}

// join copies both ways until both directions have ended, passes half-closes on as such and resets as resets, and closes
// both connections. hear, if not nil, passes the client's first bytes on; if it says so, both connections are reset.
func join(client, server *net.TCPConn, hear func() (stop bool)) joined {
	c, s := &side{TCPConn: client}, &side{TCPConn: server}
	type end struct {
		n   int64
		how outcome
		err error
	}
	down := make(chan end, 1)
	go func() {
		n, how, err := carry(c, s)
		down <- end{n, how, err}
	}()
	up := cut
	if hear != nil && hear() {
		reset(client)
		reset(server)
	} else {
		_, up, _ = carry(s, c)
	}
	d := <-down
	if up != clean || d.how != clean {
		reset(client)
		reset(server)
	}
	client.Close()
	server.Close()
	return joined{
		shunned: d.n == 0 && d.how == cut && !errors.Is(d.err, net.ErrClosed),
		reset:   d.how == cut && up != cut,
	}
}

// carry copies one direction: splice(2), since nothing wraps the connections. The kernel reports a reset once, to
// whichever direction asks first; the other sees an end or EPIPE. So the sockets' states are asked too.
func carry(dst, src *side) (int64, outcome, error) {
	n, err := io.Copy(dst.TCPConn, src.TCPConn)
	switch {
	case err != nil && gone(dst.TCPConn):
		// What the destination sent before its reset is still to be brought by the other direction, which then ends too.
		return n, broken, err
	case err != nil || gone(src.TCPConn) && !src.ended.Load():
		reset(dst.TCPConn)
		return n, cut, err
	}
	dst.ended.Store(true)
	_ = dst.CloseWrite() // fails where dst is gone, which the other direction finds out
	return n, clean, nil
}

// gone tells whether the kernel has done with the socket: reset, timed out, or closed here. After a FIN from either
// side it is not gone; after one from both it is.
func gone(c *net.TCPConn) bool {
	var state uint8
	err := control(c, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			state = info.State
		}
		return err
	})
	return err != nil || state == unix.BPF_TCP_CLOSE
}
