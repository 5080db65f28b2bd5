package drain

import (
	"time"

	"lameduck/netns/sockdiag"
)

// debtKind is what is known of an answer that a connection may owe.
type debtKind uint8

const (
	noDebt   debtKind = iota
	doubtful          // owed, or a client's control frame: counts until trainLimit, as the sleep would
	debt
)

const (
	// sendingFor is how long after a segment out an answer counts as still being sent: it may come in pieces.
	sendingFor = time.Second
	atOnce     = 50 * time.Millisecond
	// replyWithin, with the round trip, is how soon a client's HTTP/2 code answers what was sent to it. The ages are in
	// jiffies: two of them may lie between.
	replyWithin = 10 * time.Millisecond
	// maxControl is the longest of what it answers alone: WINDOW_UPDATE twice in a TLS 1.2 record, say.
	maxControl = 55
)

// owes tells whether a request on this connection has not been answered yet, as far as the kernel can know: the ages are in
// jiffies, so a request that follows the last answer within 4 ms looks answered.
//
// HTTP/2 has a client speak after the answer: it acknowledges SETTINGS and PING, and widens its window. That looks like a
// request, for ever where the connection is idle from then on (of 40 pools of real Envoys up to 14 did). It comes within a
// round trip of what it answers, and is short: 9 to 26 bytes, and a TLS record around it.
func (c *connection) owes(s *sockdiag.Socket) debtKind {
	switch {
	case queued(s):
		return debt
	case s.State == sockdiag.TimeWait || s.State == sockdiag.FinWait2 || !s.HasInfo || s.Info.DataSegsIn == 0:
		return noDebt
	case s.Info.DataSegsOut == 0:
		return debt
	case s.Info.LastDataRecv >= s.Info.LastDataSent:
		return noDebt
	case s.Info.LastDataSent-s.Info.LastDataRecv > replyWithin+s.Info.RoundTrip:
		return debt
	case c.tailSegments == 1 && c.tailBytes > maxControl:
		return debt
	case c.tailBytes < smallTrain*uint64(c.tailSegments): // no request over HTTP/1.1, which has no such frames, is as short
		return noDebt
	}
	return doubtful
}

// queued tells whether data waits to be read by the application, or to reach the client.
func queued(s *sockdiag.Socket) bool {
	unread := s.RQueue
	if s.State == sockdiag.CloseWait && unread > 0 {
		unread-- // the FIN, which the application has not read
	}
	return s.State != sockdiag.TimeWait && s.State != sockdiag.FinWait2 && (unread > 0 || s.WQueue > 0)
}

// sending tells whether an answer may still be on its way out: a piece of it has left just now, and a while after its
// request. What is answered at once, as a health check is, has no more to come.
func (c *connection) sending(s *sockdiag.Socket) bool {
	return s.HasInfo && s.Info.DataSegsOut > 0 && s.Info.LastDataSent < sendingFor && c.row.period == 0 &&
		s.Info.LastDataRecv-s.Info.LastDataSent >= atOnce
}

// holds tells whether the hold and the exit wait for this connection's answer.
func (c *connection) holds(since time.Duration) bool {
	return (c.debt == debt || c.debt == doubtful && since < trainLimit) && c.source.counts && !c.probe
}

// countOwed counts the connections whose answers are waited for, and enters them into the sources' lines.
func (l *ledger) countOwed(since time.Duration) int {
	for _, s := range l.sources {
		s.owed = 0
	}
	n := 0
	l.doubtful = false
	for _, c := range l.connections {
		if c.held = c.holds(since); c.held {
			c.source.owed++
			n++
			l.doubtful = l.doubtful || c.debt == doubtful
		}
	}
	return n
}
