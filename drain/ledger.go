package drain

import (
	"net/netip"
	"time"
)

const (
	// Bounds of what is remembered; beyond them traffic counts as plain activity and is not told apart.
	maxSources     = 4096
	maxConnections = 200_000
	maxClasses     = 64
	// birthWindow: what a new connection sends in its first second is one message (a preface, settings, a request).
	birthWindow = time.Second
	// The kubelet's probes of one port: two a second, and what jitter may push together.
	probeRate, probeBurst = 2, 4
	// probeSegments is what one probe sends at the most: a TLS handshake and a request.
	probeSegments = 4
)

// refusedSource stands for all whose SYNs the kernel refused: its counter names no address.
var refusedSource = netip.Addr{}

// class groups messages that may be one train: same port, same size.
type class struct {
	port     uint16
	segments uint32
	bytes    uint64
}

// small tells whether a message of this class can be no forwarded request.
// A refused SYN shows no bytes, so it is never called small.
func (c class) small(refused bool) bool {
	return !refused && c.bytes < smallTrain*uint64(max(1, c.segments))
}

// classRow is what a source sent in one class, over all its connections.
type classRow struct {
	train
	// The last message on connections that are gone (a refused SYN never had one): of trains, and of all others.
	trained, untrained time.Time
}

// source is what is known of a remote address.
type source struct {
	addr        netip.Addr
	node        bool      // kubelet probes come from here
	counts      bool      // whether its traffic can hold the drain
	plain       time.Time // last activity that is no train
	classes     map[class]*classRow
	connections uint64
	messages    uint64
	owed        int
	checksHere  bool      // asks the health port
	told        time.Time // zero until a failing check has been answered since the trigger
	tokens      map[uint16]*bucket
}

// bucket meters what may be probes of one port.
type bucket struct {
	tokens float64
	at     time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.tokens = min(probeBurst, b.tokens+probeRate*now.Sub(b.at).Seconds())
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// ledger knows each source and each connection.
type ledger struct {
	config      Config
	own         map[netip.Addr]bool
	nodes       map[netip.Addr]bool
	sources     map[netip.Addr]*source
	others      *source // stands for all beyond maxSources
	connections map[uint64]*connection
	sample      uint
	envoySeen   bool // a listed source has been seen
}

func newLedger(config Config) ledger {
	l := ledger{
		config:      config,
		own:         map[netip.Addr]bool{},
		nodes:       map[netip.Addr]bool{},
		sources:     map[netip.Addr]*source{},
		others:      &source{counts: true},
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
		return l.others
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
	if len(l.config.Envoy) == 0 {
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

// row finds a source's line of a class; nil where the source shows too many classes for any to be a train.
func (s *source) row(k class) *classRow {
	r := s.classes[k]
	if r == nil && len(s.classes) < maxClasses {
		if s.classes == nil {
			s.classes = map[class]*classRow{}
		}
		r = &classRow{}
		s.classes[k] = r
	}
	return r
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
		enter(s, l.lastOf(s, since))
	}
	enter(l.others, l.others.plain)
	for _, c := range l.connections {
		if !c.source.counts || c.probe || c.last.IsZero() {
			continue
		}
		if c.young || !c.inTrain() || !c.source.discounts(c.class, since) {
			enter(c.source, c.last)
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
		if !discounted || row.period == 0 {
			last = later(last, row.untrained)
		}
	}
	return last
}

// countOwed counts the connections whose answers are waited for, and enters them into the sources' lines.
func (l *ledger) countOwed() int {
	for _, s := range l.sources {
		s.owed = 0
	}
	n := 0
	for _, c := range l.connections {
		if c.holds() {
			c.source.owed++
			n++
		}
	}
	return n
}

// reclassify judges all sources anew: what the pod's and the node's addresses are is asked only at the trigger.
func (l *ledger) reclassify() {
	for addr, s := range l.sources {
		s.node = l.nodes[addr]
		s.counts = !s.node && l.isEnvoy(addr)
	}
}

// inTrain tells whether a connection's last message belongs to a train, its own or its source's.
func (c *connection) inTrain() bool {
	if c.row.period > 0 {
		return true
	}
	row := c.source.classes[c.class]
	return row != nil && row.period > 0
}

// discounts tells whether a train of this class is known to be no traffic.
func (s *source) discounts(k class, since time.Duration) bool {
	return since >= trainLimit || s.checksHere || !s.plain.IsZero() || k.small(s.addr == refusedSource) || s.otherTraffic(k)
}

// otherTraffic tells whether a source showed traffic beside a train: messages that came at no even spacing.
func (s *source) otherTraffic(k class) bool {
	n := 0
	for other, row := range s.classes {
		if other != k && row.period == 0 {
			n += row.n
		}
	}
	return n >= 3
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
