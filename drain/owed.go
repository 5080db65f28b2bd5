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
	// atOnce is how soon an answer comes that has no more to come.
	sendingFor = time.Second
	atOnce     = 50 * time.Millisecond
	// maxPause is the longest pause between two pieces that is waited for.
	maxPause = 5 * time.Second
	// slowAfter is how long a request waits before another that comes makes it unknown which was answered.
	slowAfter = 500 * time.Millisecond
	// replyWithin, with the round trip, is how soon a client's HTTP/2 code answers what was sent to it. The ages are in
	// jiffies: two of them may lie between.
	replyWithin = 10 * time.Millisecond
	// maxControl is the longest of what it answers alone: WINDOW_UPDATE twice in a TLS 1.2 record, say.
	maxControl = 55
	// minPreface is the least that opens an HTTP/2 connection with a request; maxOpening the most that its server sends
	// before an answer (measured: 61 bytes of net/http, 39 to 75 of grpc-go).
	minPreface, maxOpening = 60, 75
	// perSegment is what control frames may leave for each segment that came: a request, or a frame that acknowledges.
	// Answers leave more: 36 bytes at the least of gRPC, and 17 of the PING beside them.
	perSegment = 20
)

// answers follows what leaves on a connection.
type answers struct {
	out      uint64 // bytes sent, as seen last
	since    uint64 // of these since the last request, or the last row of them, came
	asked    uint64 // bytes of that, and segments
	segments uint32
	// waits is since when the request has waited that was owed its answer in the sample before; zero if none was.
	waits time.Time
	// single: one segment has come in all, and one left.
	single bool
	// framed: it carries control frames. Over HTTP/2 a short request may be answered beside a long one.
	framed bool
	// overtaken: while a request had waited for long another came, over HTTP/2. Which of them was answered is not known.
	overtaken bool
	// sent is when something left last, pause the longest between two pieces of an answer.
	sent  time.Time
	pause time.Duration
}

// settle judges what a connection owes by the present sample.
func (l *ledger) settle(now time.Time, c *connection, s *sockdiag.Socket) {
	c.follow(now, s)
	c.debt = c.owes(s)
	if c.answers.waits = (time.Time{}); c.debt != noDebt {
		c.answers.waits = now.Add(-s.Info.LastDataRecv)
	}
	if c.debt != debt && c.sending(s) {
		c.debt, l.fading = debt, true
	}
	c.news = false
}

// follow takes in what has left since the sample before.
func (c *connection) follow(now time.Time, s *sockdiag.Socket) {
	if !s.HasInfo {
		return
	}
	a := &c.answers
	a.single = c.segments == 1 && s.Info.DataSegsOut == 1
	out := s.Info.BytesAcked + uint64(s.WQueue)
	if a.sent.IsZero() && out > opening(c.segments) {
		a.out = out // the past of a connection that is older: what of it answered what is unknown
	}
	grown := out - min(a.out, out)
	sent := now.Add(-s.Info.LastDataSent)
	switch {
	case c.news && !c.acknowledges():
		a.overtaken = a.overtaken || a.framed && !a.waits.IsZero() && now.Sub(a.waits) >= slowAfter
		a.since, a.asked, a.segments, a.pause = grown, c.tailBytes, c.tailSegments, 0
	case c.news && controls(grown): // PING, answered
	case grown > 0:
		if a.since > 0 && !c.unanswered() && s.Info.LastDataRecv-s.Info.LastDataSent >= atOnce {
			a.pause = min(max(a.pause, sent.Sub(a.sent)), maxPause)
		}
		a.since += grown
	}
	a.out, a.sent = max(a.out, out), sent
	a.framed = a.framed || c.news && c.acknowledges() || grown > 0 && c.unanswered()
}

// acknowledges tells whether what came last may be a control frame alone.
func (c *connection) acknowledges() bool { return c.tailSegments == 1 && controls(c.tailBytes) }

// controls tells whether so many bytes are what a server's HTTP/2 code or a client's sends on its own: PING (17 bytes),
// WINDOW_UPDATE (13, mostly two at once), SETTINGS acknowledged (9). Within TLS they have 22 bytes more, and are as long as
// short answers outside of it: those are not told apart.
func controls(bytes uint64) bool {
	switch bytes {
	case 9, 13, 17, 22, 26, 30:
		return true
	}
	return false
}

// unanswered tells whether all that has left since the last requests may be control frames, as gRPC's server sends them
// when a request comes, and a server whose window a long body fills. At first it may be what opens a connection: SETTINGS,
// their acknowledgement, WINDOW_UPDATE. Its client acknowledges those SETTINGS: where one segment either way is all, it was a
// request of HTTP/1.1 and its answer (Go's empty 200 has 75 bytes, as many as an opening).
func (c *connection) unanswered() bool {
	a := &c.answers
	least := uint64(0)
	switch {
	case a.since == 0:
		return !a.waits.IsZero() // a request was seen to wait, and only PING has come and gone since
	case a.since == a.out && a.asked >= minPreface && !a.single:
		least = opening(a.segments)
	case a.framed:
		least = perSegment * uint64(a.segments)
	}
	return a.since <= least || controls(a.since) || a.since%13 == 0 && a.since/13 <= 2+a.asked/2048
}

// opening is what may have left on a connection without an answer, since it began.
func opening(segments uint32) uint64 { return maxOpening + perSegment*uint64(max(segments, 1)-1) }

// owes tells whether a request on this connection has not been answered yet, as far as the kernel can know: the ages are in
// jiffies, so a request that follows the last answer within 4 ms looks answered.
//
// HTTP/2 has a client speak after the answer: it acknowledges SETTINGS and PING, and widens its window. That looks like a
// request, for ever where the connection is idle from then on (of 40 pools of real Envoys up to 14 did). It comes within a
// round trip of what it answers, and is short: 9 to 26 bytes, and a TLS record around it. And it has a server speak before
// the answer, which looks like one.
func (c *connection) owes(s *sockdiag.Socket) debtKind {
	switch {
	case queued(s):
		if s.State != sockdiag.Established {
			return doubtful // one side has closed: the answer may never be read, or the request never
		}
		return debt
	case s.State == sockdiag.TimeWait || s.State == sockdiag.FinWait2 || !s.HasInfo || s.Info.DataSegsIn == 0:
		return noDebt
	case s.Info.DataSegsOut == 0:
		return debt
	}
	late := s.Info.LastDataSent - s.Info.LastDataRecv // by so much the last data came after the last that left
	switch {
	case late > replyWithin+s.Info.RoundTrip:
		return debt
	case late > 0 && c.tailSegments == 1 && c.tailBytes > maxControl:
		return debt
	// Over HTTP/1.1, which has no such frames, no request is as short.
	case late > 0 && c.tailBytes >= smallTrain*uint64(c.tailSegments):
		return doubtful
	case c.answers.overtaken || c.unanswered():
		return doubtful
	}
	return noDebt
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
	return s.HasInfo && s.Info.DataSegsOut > 0 && c.row.period == 0 &&
		s.Info.LastDataSent < max(sendingFor, 2*c.answers.pause) && s.Info.LastDataRecv-s.Info.LastDataSent >= atOnce
}

// holds tells whether the hold and the exit wait for this connection's answer.
func (c *connection) holds(since time.Duration) bool {
	return (c.debt == debt || c.debt == doubtful && since < trainLimit) && c.source.counts && !c.probe && !c.check
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
