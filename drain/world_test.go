package drain

import (
	"net/netip"
	"testing"
	"time"

	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

var (
	appAddr = netip.MustParseAddrPort("10.0.0.5:8080")
	envoy   = netip.MustParseAddr("10.0.9.1")
	scraper = netip.MustParseAddr("10.0.9.7")
	node    = netip.MustParseAddr("10.0.0.1")
	epoch   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// world drives a machine as the kernel and the loop would: it keeps the sockets, and ticks four times a second.
type world struct {
	t         *testing.T
	m         *Machine
	now       time.Time
	conns     map[uint64]*sockdiag.Socket
	received  map[uint64]time.Time // last data in
	sent      map[uint64]time.Time // last data out
	listening bool
	queue     uint32
	segs      uint64
	refused   uint64
	cookie    uint64
	blind     error
	failed    map[uint64]bool // connections on which lameduck failed a check
	taken     bool            // lameduck has taken the port: it accepts what is opened
	ours      map[uint64]bool // what it has accepted

	releasedAt, exitedAt time.Time
	words                LastWords
	armed                []takeover.Listener
	notes                []string
}

func newWorld(t *testing.T, c Config) *world {
	w := &world{t: t, m: NewMachine(c), now: epoch, conns: map[uint64]*sockdiag.Socket{},
		received: map[uint64]time.Time{}, sent: map[uint64]time.Time{}, listening: true, failed: map[uint64]bool{}, ours: map[uint64]bool{}}
	w.next(Listening{[]sockdiag.Socket{w.listener()}})
	return w
}

func (w *world) listener() sockdiag.Socket {
	return sockdiag.Socket{Local: appAddr, State: sockdiag.Listen, Cookie: 1, RQueue: w.queue}
}

func (w *world) next(e Event) {
	for _, effect := range w.m.Next(w.now, e) {
		switch f := effect.(type) {
		case Release:
			if !w.releasedAt.IsZero() {
				w.t.Error("released twice")
			}
			w.releasedAt = w.now
		case Exit:
			w.exitedAt, w.words = w.now, f.Words
		case Arm:
			w.armed = append(w.armed, f.Listener)
		case Note:
			text := f.Message
			for _, a := range f.Attrs {
				text += " " + a.String()
			}
			w.notes = append(w.notes, text)
		}
	}
}

func (w *world) trigger() {
	w.next(Counted{InSegs: w.segs, Refused: w.refused})
	if w.listening {
		w.next(Listening{[]sockdiag.Socket{w.listener()}})
	} else {
		w.next(Listening{})
	}
	w.next(Triggered{By: "drain", Own: []netip.Addr{appAddr.Addr()}, Gateways: []netip.Addr{node}})
	w.sample()
}

func (w *world) sample() {
	var seen []Seen
	if w.listening {
		seen = append(seen, Seen{Socket: w.listener()})
	}
	for cookie, s := range w.conns {
		seen = append(seen, Seen{Socket: w.figures(cookie, *s), Ours: w.ours[cookie], Check: w.failed[cookie]})
	}
	w.next(Sampled{Sockets: seen, Blind: w.blind})
}

func (w *world) figures(cookie uint64, s sockdiag.Socket) sockdiag.Socket {
	s.HasInfo = true
	s.Info.LastDataRecv, s.Info.LastDataSent = w.now.Sub(w.received[cookie]), w.now.Sub(w.sent[cookie])
	return s
}

// run lets time pass, with a tick every 250 ms and at each moment the machine asked for, until it exits.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for w.now.Before(end) && w.exitedAt.IsZero() {
		step := min(period, end.Sub(w.now))
		if wake := w.m.Wake(w.now); !wake.IsZero() {
			step = min(step, wake.Sub(w.now))
		}
		w.now = w.now.Add(step)
		w.next(Counted{InSegs: w.segs, Refused: w.refused})
		w.next(Tick{})
		if w.m.Stale() && w.m.phase != Serving {
			w.sample()
		}
	}
}

// open opens a connection from a source; send and answer move data on it.
func (w *world) open(from netip.Addr) uint64 {
	w.cookie++
	c := 100 + w.cookie
	w.conns[c] = &sockdiag.Socket{Local: appAddr, Remote: netip.AddrPortFrom(from, 40000+uint16(w.cookie)), Cookie: c, Inode: uint32(c), State: sockdiag.Established}
	w.received[c], w.sent[c] = w.now, w.now
	w.ours[c] = w.taken
	w.segs += 2
	return c
}

func (w *world) send(c uint64, bytes int) {
	w.conns[c].Info.DataSegsIn++
	w.conns[c].Info.BytesReceived += uint64(bytes)
	w.received[c] = w.now
	w.segs++
}

func (w *world) answer(c uint64) { w.leave(c, 300) }

// leave has the application's side send something.
func (w *world) leave(c uint64, bytes int) {
	w.conns[c].Info.DataSegsOut++
	w.conns[c].Info.BytesAcked += uint64(bytes)
	w.sent[c] = w.now
	w.segs++
}

func (w *world) request(c uint64, bytes int) { w.send(c, bytes); w.answer(c) }

func (w *world) close(c uint64) {
	s := w.figures(c, *w.conns[c])
	s.Info.BytesReceived++ // the FIN
	delete(w.conns, c)
	w.segs += 2
	w.next(Ended{Socket: s, Check: w.failed[c]})
}

// void ends a connection as the kernel tells of one that nobody had accepted, or that was closed by RST: without its remote
// port, and with figures that say nothing. It returns what was told.
func (w *world) void(c uint64) sockdiag.Socket {
	s := *w.conns[c]
	s.Remote, s.HasInfo = netip.AddrPortFrom(s.Remote.Addr(), 0), true
	delete(w.conns, c)
	w.next(Ended{Socket: s})
	return s
}

// once is a request on a connection of its own.
func (w *world) once(from netip.Addr, bytes int) {
	c := w.open(from)
	w.request(c, bytes)
	w.close(c)
}

func (w *world) appExits() {
	w.listening = false
	w.next(ListenerDied{appAddr})
	for c := range w.conns {
		w.close(c)
	}
	w.sample()
}

// takeover ends the application, and lameduck takes its port.
func (w *world) takeover() {
	w.next(Terminated{})
	w.appExits()
	w.taken = true
	w.next(Took{takeover.Listener{Addr: appAddr}})
}

func (w *world) since() time.Duration { return w.now.Sub(epoch) }

func (w *world) wantReleased(at, within time.Duration) {
	w.t.Helper()
	got := w.releasedAt.Sub(epoch)
	if w.releasedAt.IsZero() || got < at || got > at+within {
		w.t.Errorf("the hold was released at %v (zero: %v), want %v to %v", got, w.releasedAt.IsZero(), at, at+within)
	}
}

func (w *world) wantHeld() {
	w.t.Helper()
	if !w.releasedAt.IsZero() {
		w.t.Errorf("the hold was released at %v (%s)", w.releasedAt.Sub(epoch), w.m.released)
	}
}

func (w *world) wantExit(reason string, at, within time.Duration) {
	w.t.Helper()
	got := w.exitedAt.Sub(epoch)
	if w.exitedAt.IsZero() || got < at || got > at+within {
		w.t.Errorf("exit at %v (none: %v), want %v to %v", got, w.exitedAt.IsZero(), at, at+within)
	}
	if w.words.Reason != reason {
		w.t.Errorf("reason %q, want %q", w.words.Reason, reason)
	}
}

// half is the leeway of a moment: two ticks.
const half = 500 * time.Millisecond
