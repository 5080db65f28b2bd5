package drain

import (
	"time"

	"lameduck/netns/sockdiag"
)

// connection is an inbound connection of an application port.
type connection struct {
	source   *source
	port     uint16
	born     time.Time // its first byte
	young    bool      // its first messages have no class yet
	probe    bool      // looks like the kubelet's: does not count
	check    bool      // lameduck failed a health check on it: does not count
	segments uint32
	bytes    uint64
	uniform  uint64    // the size of each of its segments, while all are equal; else 0
	many     bool      // it had sent some before the trigger
	last     time.Time // last message since the trigger; zero if none
	before   time.Time // last data before the trigger; zero if none
	class    class     // of the last message
	open     part      // the message that is coming in
	row      rhythm    // the train on this connection alone
	// What came last, as far as samples tell it apart: the data since the sample before, the whole life at first sight.
	tailSegments uint32
	tailBytes    uint64
	news         bool // it came with the present sample
	answers      answers
	debt         debtKind
	held         bool      // counted among the owed
	app          bool      // held by the application, not by lameduck
	seen         uint      // the sample that showed it last
	missed       time.Time // since when samples have not shown it; zero while they do
}

// part is a message of which more may come: the frames of one request can fall into two samples.
type part struct {
	first, last time.Time // zero if there is none
	segments    uint32
	bytes       uint64
}

// gather is how soon after its first byte the rest of a message comes.
const gather = 100 * time.Millisecond

// observe takes one connection of a dump. first marks the dump at the trigger: what it shows was there before.
func (l *ledger) observe(now time.Time, seen *Seen, first bool) {
	s := &seen.Socket
	c := l.connections[s.Cookie]
	switch {
	case c == nil && !s.HasInfo:
		return // what the kernel keeps of a connection that the application has closed (FIN_WAIT2): its end is known
	case c == nil && len(l.connections) >= maxConnections:
		if src := l.source(s.Remote.Addr()); src.counts {
			src.plain = now
		}
		return
	case c == nil:
		c = l.open(now, s, first)
	default:
		l.progress(now, c, s)
		c.answered(now, s)
	}
	c.seen, c.missed = l.sample, time.Time{}
	c.app = !seen.Ours && accepted(s)
	c.check = c.check || seen.Check
	switch {
	case c.young && !c.last.IsZero() && now.Sub(c.born) >= birthWindow:
		l.grow(c, false)
	case c.open.first.IsZero():
	case now.Sub(c.open.first) >= gather:
		c.complete()
	default:
		l.fading = true
	}
	l.settle(now, c, s)
}

// open enters a connection.
func (l *ledger) open(now time.Time, s *sockdiag.Socket, first bool) *connection {
	c := &connection{source: l.source(s.Remote.Addr()), port: s.Local.Port(), born: now, seen: l.sample}
	l.connections[s.Cookie] = c
	c.take(s.Info.DataSegsIn, s.Info.BytesReceived)
	at := now.Add(-s.Info.LastDataRecv)
	if first {
		if c.source.node && !c.source.counts && c.segments > probeSegments {
			c.source.counts = true // more than a probe sends
		}
		c.many = int(c.segments) >= small.needed()
		if c.segments > 0 {
			c.before = at
			c.source.active = later(c.source.active, at)
		}
		c.probe = c.source.node && !c.source.counts
		c.young = c.probe && c.segments == 0 // the kubelet has just connected
		return c
	}
	c.source.connections++
	c.young = true
	c.probe = l.probeLike(c.source, c.port, now)
	if c.segments > 0 {
		c.source.messages++
		c.last, c.born = at, at
	}
	c.answered(now, s)
	return c
}

// answered lets a connection count whose server spoke first. Without a byte either way none does: it is a TCP health check,
// a peer's probe, or a request that is yet to come.
func (c *connection) answered(now time.Time, s *sockdiag.Socket) {
	if c.young && c.last.IsZero() && s.HasInfo && s.Info.DataSegsOut > 0 {
		c.last, c.born = now, now
	}
}

// take adds segments and follows whether all are of one size.
func (c *connection) take(segments uint32, bytes uint64) {
	size := uint64(0)
	if segments > 0 && bytes%uint64(segments) == 0 {
		size = bytes / uint64(segments)
	}
	if c.segments > 0 && size != c.uniform {
		size = 0
	}
	c.uniform = size
	c.segments += segments
	c.bytes += bytes
	c.tailSegments, c.tailBytes = segments, bytes
	c.news = segments > 0
}

// progress takes what has come on a known connection since it was last seen.
func (l *ledger) progress(now time.Time, c *connection, s *sockdiag.Socket) {
	if !s.HasInfo || s.Info.DataSegsIn == c.segments || s.Info.BytesReceived < c.bytes {
		return // a FIN adds a byte and no data segment: closing is not activity
	}
	segments, bytes := s.Info.DataSegsIn-c.segments, s.Info.BytesReceived-c.bytes
	c.take(segments, bytes)
	at := later(later(c.last, c.open.last), now.Add(-s.Info.LastDataRecv))
	c.source.messages++
	if c.young {
		if c.last.IsZero() {
			c.born = at
		}
		c.last = at
		return
	}
	if c.source.node && !c.source.counts {
		// The kubelet opens a connection for each probe: a second request on one is somebody else's.
		c.source.counts = true
	}
	c.probe = false
	if at.Sub(c.open.first) >= gather {
		c.complete()
		c.open.first = at
	}
	c.open.last, c.open.segments, c.open.bytes = at, c.open.segments+segments, c.open.bytes+bytes
}

// complete enters the message that has come in.
func (c *connection) complete() {
	if !c.open.first.IsZero() {
		c.message(c.open)
		c.open = part{}
	}
}

// message enters a message on a connection that is past its birth.
func (c *connection) message(m part) {
	at, segments, bytes := m.first, m.segments, m.bytes
	if bytes > mayTrainBytes || segments > mayTrainSegments {
		c.fold()
		c.source.plain, c.row = later(c.source.plain, m.last), rhythm{}
		c.last, c.class = m.last, class{port: c.port, bytes: bytes}
		return
	}
	k := class{c.port, bytes, c.uniform > 0 && c.uniform < smallTrain}
	switch {
	case c.last.IsZero() && k.small && c.many && bytes == c.uniform && at.Sub(c.before) >= minSpacing:
		c.row.known(at, at.Sub(c.before))
	default:
		if k != c.class {
			c.fold()
			c.row = rhythm{}
		}
		if !c.row.add(at, k) {
			c.source.enter(k, at)
		}
	}
	c.last, c.class = m.last, k
}

// grow ends a connection's birth: what it sent so far was one message. ended: and its only one.
func (l *ledger) grow(c *connection, ended bool) {
	c.young = false
	c.class = c.source.like(class{c.port, c.bytes, ended && c.bytes < smallTrain || c.uniform > 0 && c.uniform < smallTrain})
	if c.probe && c.segments > probeSegments {
		c.probe, c.source.counts = false, true
	}
	switch {
	case c.probe || c.check:
	case c.bytes > mayTrainBytes:
		c.source.plain = later(c.source.plain, c.last)
	default:
		c.source.enter(c.class, c.last)
	}
}

// close takes a connection's end, and what it had sent that no dump saw. It returns what was known of it, nil if nothing.
// ours: lameduck holds the port.
func (l *ledger) close(now time.Time, e *Ended, ours bool) *connection {
	s := &e.Socket
	c := l.connections[s.Cookie]
	// The kernel tells of a connection that nobody had accepted, and of one that was closed by RST (SO_LINGER 0), with
	// remote port 0 and with figures that say nothing.
	hollow := s.Remote.Port() == 0
	switch {
	case c == nil && hollow && ours: // a peer's probe, or a loop, that lameduck has reset
		return nil
	case c == nil && hollow:
		l.void(void{from: s.Remote.Addr(), port: s.Local.Port(), at: now})
		return nil
	case c == nil:
		c = l.open(now, s, false)
	case !hollow:
		l.progress(now, c, s)
		c.answered(now, s)
	case !ours && !c.probe:
		l.void(void{from: s.Remote.Addr(), port: s.Local.Port(), at: now, known: true})
	}
	c.check = c.check || e.Check
	l.forget(s.Cookie, c)
	return c
}

// forget folds a connection that is gone into its source's line.
func (l *ledger) forget(cookie uint64, c *connection) {
	delete(l.connections, cookie)
	if c.probe {
		c.source.probed(class{port: c.port, bytes: c.bytes}, c.born)
	}
	if c.young && !c.last.IsZero() {
		// A FIN adds a byte, and whether it came is not told: without it equal connections stay equal.
		c.bytes -= min(c.bytes, 1)
		l.grow(c, true)
	}
	c.complete()
	c.fold()
}

// fold enters a connection's last message into its source's line, where it stays when the connection shows it no more.
func (c *connection) fold() {
	if c.probe || c.check || c.last.IsZero() {
		return
	}
	row := c.source.row(c.class)
	switch {
	case row == nil:
		c.source.plain = later(c.source.plain, c.last)
	case c.row.period > 0:
		row.trained = later(row.trained, c.last)
		row.apart = later(row.apart, c.row.apart)
	default:
		row.untrained = later(row.untrained, c.last)
	}
}

// accepted tells whether a process holds the connection. One that waits in an accept queue has no inode yet, and waits
// for lameduck where the application's listener is gone.
func accepted(s *sockdiag.Socket) bool {
	return s.Inode != 0 && (s.State == sockdiag.Established || s.State == sockdiag.CloseWait)
}
