package drain

import (
	"time"

	"lameduck/netns/sockdiag"
)

// connection is an inbound connection of an application port.
type connection struct {
	source   *source
	port     uint16
	born     time.Time
	young    bool // its first messages have no class yet
	probe    bool // looks like the kubelet's: does not count
	segments uint32
	bytes    uint64
	last     time.Time // last message since the trigger; zero if none
	before   time.Time // last data before the trigger; zero if none
	uniform  uint64    // size of each segment before the trigger, where all were equal
	class    class     // of the last message
	row      train     // the train on this connection alone
	owed     bool
	app      bool // held by the application, not by lameduck
	seen     uint // the sample that showed it last
	missed   bool // the sample after that one did not show it
}

// observe takes one connection of a dump. first marks the dump at the trigger: what it shows was there before.
func (l *ledger) observe(now time.Time, s *sockdiag.Socket, ours, first bool) {
	c := l.connections[s.Cookie]
	switch {
	case c == nil && len(l.connections) >= maxConnections:
		if src := l.source(s.Remote.Addr()); src.counts {
			src.plain = now
		}
		return
	case c == nil:
		c = l.open(now, s, first)
	default:
		l.progress(now, c, s)
	}
	c.seen, c.missed = l.sample, false
	c.app = !ours && accepted(s)
	c.owed = owed(s)
	if c.young && now.Sub(c.born) >= birthWindow {
		l.grow(c)
	}
}

// open enters a connection.
func (l *ledger) open(now time.Time, s *sockdiag.Socket, first bool) *connection {
	c := &connection{source: l.source(s.Remote.Addr()), port: s.Local.Port(), born: now, seen: l.sample}
	l.connections[s.Cookie] = c
	c.segments, c.bytes = s.Info.DataSegsIn, s.Info.BytesReceived
	if first {
		if c.segments > 0 {
			c.before = now.Add(-s.Info.LastDataRecv)
		}
		if n := uint64(c.segments); n >= 3 && c.bytes%n == 0 {
			c.uniform = c.bytes / n
		}
		c.probe = c.source.node
		c.young = c.probe && c.segments == 0 // the kubelet has just connected
		return c
	}
	c.source.connections++
	c.young = true
	c.last = now
	if c.segments > 0 {
		c.source.messages++
		c.last = now.Add(-s.Info.LastDataRecv)
	}
	c.probe = l.probeLike(c.source, c.port, now)
	return c
}

// progress takes what has come on a known connection since it was last seen.
func (l *ledger) progress(now time.Time, c *connection, s *sockdiag.Socket) {
	if !s.HasInfo {
		return
	}
	segments, bytes := s.Info.DataSegsIn-c.segments, s.Info.BytesReceived-c.bytes
	c.segments, c.bytes = s.Info.DataSegsIn, s.Info.BytesReceived
	if segments == 0 {
		return // a FIN adds a byte and no data segment: closing is not activity
	}
	at := now.Add(-s.Info.LastDataRecv)
	c.source.messages++
	if c.young {
		c.last = at
		return
	}
	if c.source.node && !c.source.counts {
		// The kubelet opens a connection for each probe: a second request on one is somebody else's.
		c.source.counts = true
	}
	c.probe = false
	l.message(c, at, class{c.port, segments, bytes})
}

// message enters a message on a connection that is past its birth.
func (l *ledger) message(c *connection, at time.Time, k class) {
	if k.bytes > mayTrainBytes || k.segments > mayTrainSegments {
		c.source.plain, c.row = at, train{}
		return
	}
	if c.last.IsZero() && c.uniform > 0 && k.segments == 1 && k.bytes == c.uniform && at.Sub(c.before) >= minSpacing {
		c.row.known(at, at.Sub(c.before))
	} else {
		if k != c.class {
			c.fold()
			c.row = train{}
		}
		wasTrain := c.row.period > 0
		if !c.row.add(at) {
			if wasTrain {
				c.source.plain = at // out of step: a request may have come among the checks
			}
			if row := c.source.row(k); row != nil {
				row.add(at)
			} else {
				c.source.plain = at
			}
		}
	}
	c.last, c.class = at, k
}

// grow ends a connection's birth: what it sent so far was one message.
func (l *ledger) grow(c *connection) {
	c.young = false
	c.class = class{c.port, c.segments, c.bytes}
	if c.probe && c.segments > probeSegments {
		c.probe, c.source.counts = false, true
	}
	if c.probe {
		return
	}
	row := c.source.row(c.class)
	if row == nil || c.bytes > mayTrainBytes {
		c.source.plain = later(c.source.plain, c.last)
		return
	}
	row.add(c.last)
}

// close takes a connection's end, and what it had sent that no dump saw. It returns what was known of it.
func (l *ledger) close(now time.Time, s *sockdiag.Socket) *connection {
	c := l.connections[s.Cookie]
	if c != nil {
		l.progress(now, c, s)
	} else {
		c = l.open(now, s, false)
	}
	if s.HasInfo && s.Info.DataSegsIn == 0 && s.Info.DataSegsOut == 0 {
		// It ended without a byte either way: a TCP health check, a probe of a peer. It carried no request.
		delete(l.connections, s.Cookie)
		return c
	}
	l.forget(s.Cookie, c)
	return c
}

// forget folds a connection that is gone into its source's line.
func (l *ledger) forget(cookie uint64, c *connection) {
	delete(l.connections, cookie)
	if c.young {
		// A FIN adds a byte, and whether it came is not told: without it equal connections stay equal.
		c.bytes -= min(c.bytes, uint64(boolInt(c.bytes > 0)))
		l.grow(c)
	}
	c.fold()
}

// fold enters a connection's last message into its source's line, where it stays when the connection shows it no more.
func (c *connection) fold() {
	if c.probe || c.last.IsZero() {
		return
	}
	row := c.source.row(c.class)
	switch {
	case row == nil:
		c.source.plain = later(c.source.plain, c.last)
	case c.row.period > 0:
		row.trained = later(row.trained, c.last)
	default:
		row.untrained = later(row.untrained, c.last)
	}
}

// vanished sees to the connections that the present sample, a whole one, did not show: they have ended. Their events may
// be on the way still, and would be those of new connections if nothing were known of them. So it waits for one sample more.
func (l *ledger) vanished() {
	for cookie, c := range l.connections {
		switch {
		case c.seen == l.sample:
		case c.missed:
			l.forget(cookie, c)
		default:
			c.missed, c.owed, c.app = true, false, false
		}
	}
}

// refused enters SYNs that the kernel refused.
func (l *ledger) refused(now time.Time, n uint64) {
	s := l.source(refusedSource)
	s.connections += n
	row := s.row(class{segments: uint32(n)})
	if n > 1 || row == nil {
		s.plain = now
		return
	}
	row.add(now)
	row.untrained = now
}

// probeLike tells whether a new connection from the node may be the kubelet's.
func (l *ledger) probeLike(s *source, port uint16, now time.Time) bool {
	if !s.node || s.counts {
		return false
	}
	if s.tokens == nil {
		s.tokens = map[uint16]*bucket{}
	}
	b := s.tokens[port]
	if b == nil {
		b = &bucket{tokens: probeBurst, at: now}
		s.tokens[port] = b
	}
	if !b.take(now) {
		s.counts = true
		return false
	}
	return true
}

// accepted tells whether a process holds the connection. One that waits in an accept queue has no inode yet, and waits
// for lameduck where the application's listener is gone.
func accepted(s *sockdiag.Socket) bool {
	return s.Inode != 0 && (s.State == sockdiag.Established || s.State == sockdiag.CloseWait)
}

// owed tells whether a request on this connection has not been answered yet, as far as the kernel can know.
func owed(s *sockdiag.Socket) bool {
	unread := s.RQueue
	if s.State == sockdiag.CloseWait && unread > 0 {
		unread-- // the FIN, which the application has not read
	}
	switch {
	case s.State == sockdiag.TimeWait || s.State == sockdiag.FinWait2 && s.WQueue == 0:
		return false
	case unread > 0 || s.WQueue > 0:
		return true
	case !s.HasInfo || s.Info.DataSegsIn == 0:
		return false
	}
	return s.Info.DataSegsOut == 0 || s.Info.LastDataRecv < s.Info.LastDataSent
}

// holds tells whether the hold and the exit wait for this connection's answer.
func (c *connection) holds() bool { return c.owed && c.source.counts && !c.probe }
