package drain

import (
	"net/netip"
	"time"
)

const (
	// Bounds of what is remembered; beyond them traffic counts as plain activity and is not told apart.
	maxSources     = 4096
	maxEnvoys      = 32_768
	maxCheckers    = 256 // sources of health checks before a drain
	maxConnections = 200_000
	maxClasses     = 64
	// birthWindow: what a new connection sends in its first second is one message (a preface, settings, a request).
	birthWindow = time.Second
)

// refusedSource stands for all whose SYNs the kernel refused: its counter names no address.
var refusedSource = netip.Addr{}

// ledger knows each source and each connection.
type ledger struct {
	config      Config
	own         map[netip.Addr]bool
	envoys      map[netip.Addr]bool // learned in the drain, and whether listed now; nil: nothing has been
	nodes       map[netip.Addr]bool
	sources     map[netip.Addr]*source
	others      *source // stands for all beyond maxSources that count as Envoy
	strangers   *source // and for all that do not
	connections map[uint64]*connection
	voids       []void
	sample      uint
	fading      bool // the last sample showed an answer that was being sent: time alone may change that
	doubtful    bool // an answer is counted as owed that may be none: until trainLimit
	envoySeen   bool // a listed source has been seen
}

func newLedger(config Config) ledger {
	l := ledger{
		config:      config,
		own:         map[netip.Addr]bool{},
		nodes:       map[netip.Addr]bool{},
		sources:     map[netip.Addr]*source{},
		others:      &source{counts: true, crowd: true},
		strangers:   &source{crowd: true},
		connections: map[uint64]*connection{},
	}
	for _, a := range config.NodeIPs {
		l.nodes[a.Unmap()] = true
	}
	return l
}

// source finds the ledger's line for a remote address, or makes it.
func (l *ledger) source(addr netip.Addr) *source {
	if s := l.sources[addr]; s != nil {
		return s
	}
	if len(l.sources) >= maxSources {
		if l.isEnvoy(addr) {
			return l.others
		}
		return l.strangers
	}
	// The kubelet's probes come from the node; an Envoy there shows itself by more traffic than probes make.
	s := &source{addr: addr, node: l.nodes[addr]}
	s.counts = !s.node && l.isEnvoy(addr)
	l.sources[addr] = s
	return s
}

func (l *ledger) isEnvoy(addr netip.Addr) bool {
	if addr == refusedSource {
		return true
	}
	if addr.IsLoopback() || l.own[addr] {
		return false
	}
	if len(l.config.Envoy) == 0 && !l.config.EnvoySlices || l.config.EnvoySlices && l.envoys == nil {
		return true
	}
	if _, learned := l.envoys[addr]; learned {
		l.envoySeen = true
		return true
	}
	for _, p := range l.config.Envoy {
		if p.Contains(addr) {
			l.envoySeen = true
			return true
		}
	}
	return false
}

// lasts gives each source's last moment of activity: traffic that carries, or may carry, a request.
// Sources without any are left out. since is the time since the trigger: a train that may be a lone poller
// counts until trainLimit.
func (l *ledger) lasts(since time.Duration) map[*source]time.Time {
	lasts := make(map[*source]time.Time, len(l.sources))
	enter := func(s *source, at time.Time) {
		if at.After(lasts[s]) {
			lasts[s] = at
		}
	}
	for _, s := range l.sources {
		if s.addr == refusedSource && since >= trainLimit {
			enter(s, s.plain) // single ones may be anybody's, whom no --envoy tells
			continue
		}
		enter(s, l.lastOf(s, since))
	}
	enter(l.others, l.others.plain)
	for _, c := range l.connections {
		if !c.source.counts || c.probe || c.check {
			continue
		}
		if !c.open.first.IsZero() && (!c.row.expects(c.open.first, c.class, since) || !c.source.discounts(c.class, since)) {
			enter(c.source, c.open.last)
		}
		switch {
		case c.last.IsZero():
		case c.young || !c.inTrain(since) || !c.source.discounts(c.class, since):
			enter(c.source, c.last)
		case c.row.inTrain(since):
			enter(c.source, c.row.stray())
		}
	}
	return lasts
}

// activity is the last moment of all, zero if there was none.
func (l *ledger) activity(since time.Duration) time.Time {
	var last time.Time
	for _, at := range l.lasts(since) {
		last = later(last, at)
	}
	return last
}

// follow keeps the longest gap of each source's traffic. Where trains become known the traffic was less than it seemed, and
// what was learned of it is forgotten.
func (l *ledger) follow(since time.Duration) {
	for s, at := range l.lasts(since) {
		switch gap := at.Sub(s.active); {
		case at.Before(s.active):
			s.gap = 0
		case !s.active.IsZero():
			s.gap = max(s.gap, gap)
		}
		s.active = at
	}
}

// quietAt is when it will be quiet if nothing more comes, and the last activity, zero if there was none.
func (l *ledger) quietAt(since time.Duration, start time.Time) (last, at time.Time) {
	at = start.Add(l.config.Quiet)
	for s, active := range l.lasts(since) {
		last = later(last, active)
		window := l.config.Quiet
		// A silence as long as the gaps in a source's traffic says nothing: where these come near the quiet window it takes
		// twice the longest, though not beyond the end of the usual sleep. Gaps far above it cannot be waited out.
		if sparse := 2 * s.gap; sparse > window && s.gap < 2*window && s.addr != refusedSource {
			window = max(window, min(sparse, start.Add(blindHold).Sub(active)))
		}
		at = later(at, active.Add(window))
	}
	return last, at
}

// lastOf is the last activity of a source on connections that are gone, and what was no train on any.
func (l *ledger) lastOf(s *source, since time.Duration) time.Time {
	if !s.counts {
		return time.Time{}
	}
	last := s.plain
	for k, row := range s.classes {
		discounted := s.discounts(k, since)
		if !discounted {
			last = later(last, row.trained)
		}
		if discounted && row.inTrain(since) {
			last = later(last, row.stray())
		} else {
			last = later(last, row.untrained)
		}
	}
	return last
}

// vanished sees to the connections that the present sample, a whole one, did not show: they have ended. Their events may
// be on the way still, and would be those of new connections if nothing were known of them.
func (l *ledger) vanished(now time.Time) {
	for cookie, c := range l.connections {
		switch {
		case c.seen == l.sample:
		case c.missed.IsZero():
			c.missed, c.debt, c.app = now, noDebt, false
		case now.Sub(c.missed) >= lateDeath:
			l.forget(cookie, c)
		}
	}
}

// refused enters SYNs that the kernel refused. silent: a single one may be the kubelet's.
func (l *ledger) refused(now time.Time, n uint64, silent bool) {
	s := l.source(refusedSource)
	s.connections += n
	if n == 1 && silent && l.probeDue(now) {
		return
	}
	if n > 1 {
		s.plain = now
		return
	}
	s.unseen(class{}, now)
}

// reclassify judges all sources anew: what the pod's and the node's addresses are, and Envoy's, is asked only at the trigger.
func (l *ledger) reclassify() {
	for addr, s := range l.sources {
		shown := s.node && s.counts // by more traffic than probes make
		s.node = l.nodes[addr]
		s.counts = s.node && shown || !s.node && l.isEnvoy(addr)
	}
}

// learn takes addresses that count as Envoy. One that has been learned remains one: what it sent may be owed an answer.
func (l *ledger) learn(addresses []netip.Addr) {
	if l.envoys == nil {
		l.envoys = map[netip.Addr]bool{}
	}
	for a := range l.envoys {
		l.envoys[a] = false
	}
	for _, a := range addresses {
		if len(l.envoys) < maxEnvoys {
			l.envoys[a.Unmap()] = true
		}
	}
	l.reclassify()
}

// inTrain tells whether a connection's last message belongs to a train, its own or its source's.
func (c *connection) inTrain(since time.Duration) bool {
	if c.row.inTrain(since) {
		return true
	}
	row := c.source.classes[c.class]
	return row != nil && row.inTrain(since)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
