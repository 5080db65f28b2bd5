package takeover

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// tries bounds the peers that are dialled for one connection: its client waits.
const tries = 3

var errNoPeer = errors.New("takeover: no peer accepts")

// relay passes the connection on to a peer until both sides have ended. What is yet unread of it is passed on too.
// decided: its first bytes have told that it is no health check. It reports whether it has reset the client.
func (t *Takeover) relay(ctx context.Context, l *link, port uint16, decided bool) (hasReset bool) {
	server, p, err := t.dialPeer(ctx, port)
	if err != nil {
		t.failed.Add(1)
		reset(l.client)
		return true
	}
	defer t.peers.done(p)
	defer server.Close()
	t.conns.join(l, server)
	t.relayed.Add(1)
	t.open.Add(1)
	defer t.open.Add(-1)
	var hear func() bool
	if !decided {
		hear = func() bool { return t.hearLate(l) }
	}
	e := join(l.client, server, hear)
	if e.shunned {
		t.peers.suspect(p)
	}
	return e.reset
}

// dialPeer finds a peer that accepts; its caller tells peers.done when the connection has ended.
func (t *Takeover) dialPeer(ctx context.Context, port uint16) (*net.TCPConn, *peer, error) {
	var tried []*peer
	for range tries {
		p := t.peers.pick(port, tried)
		if p == nil {
			break
		}
		c, err := t.dialOne(ctx, p)
		if err == nil {
			return c, p, nil
		}
		t.peers.done(p)
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case errors.Is(err, unix.ECONNRESET):
			t.peers.suspect(p) // behind a Service's address another endpoint may accept: it may be picked again
		default:
			tried = append(tried, p)
			if !ours(err) {
				t.peers.fail(p, err)
			}
		}
	}
	return nil, nil, errNoPeer
}

// A dial that failed for want of descriptors or memory is tried again, each breath for as long as a client may wait.
const (
	breath   = 10 * time.Millisecond
	wantTime = 10 * time.Second
)

// dialOne dials a peer in its time. What is wanting here comes back: pipes of ended relays are closed with the garbage.
func (t *Takeover) dialOne(ctx context.Context, p *peer) (*net.TCPConn, error) {
	for start := time.Now(); ; {
		c, err := t.dialOnce(ctx, p)
		if err == nil || !wanting(err) || time.Since(start) > wantTime {
			return c, err
		}
		select {
		case <-time.After(breath):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (t *Takeover) dialOnce(ctx context.Context, p *peer) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.opts.DialTimeout)
	defer cancel()
	return t.sys.dial(ctx, p.addr)
}

// ours tells whether a dial failed for want of something here: that says nothing about the peer.
func ours(err error) bool {
	return wanting(err) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// wanting tells of a lack that may pass: of descriptors or of memory.
func wanting(err error) bool { return noFiles(err) || isAny(err, unix.ENOBUFS, unix.ENOMEM) }

// noFiles tells of the lack of descriptors, this process's or the machine's.
func noFiles(err error) bool { return isAny(err, unix.EMFILE, unix.ENFILE) }

func isAny(err error, all ...unix.Errno) bool {
	return slices.ContainsFunc(all, func(errno unix.Errno) bool { return errors.Is(err, errno) })
}
