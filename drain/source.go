package drain

import (
	"net/netip"
	"time"
)

// class groups messages that may be one train: same port, same size.
type class struct {
	port  uint16
	bytes uint64
	// small: too short for a request that Envoy forwarded. That holds for HTTP/1.1 only, so it is said of connections whose
	// whole life is equal segments, or that ended after so few bytes: an HTTP/2 request may take 46 bytes, but its
	// connection begins with more, and unequal ones.
	small bool
}

// pace is how even messages of this class must be to be a train.
func (k class) pace() pace {
	if k.small {
		return small
	}
	return strict
}

// classRow is what a source sent in one class, over all its connections.
type classRow struct {
	rhythm
	braid braid
	count int
	// The last message on connections that are gone (a refused SYN never had one): of trains, and of all others.
	trained, untrained time.Time
}

func (r *classRow) add(k class, at time.Time) {
	r.count++
	r.rhythm.add(at, k)
	if k.small {
		r.braid.add(at)
	}
}

func (r *classRow) inTrain(since time.Duration) bool { return r.braid.on || r.rhythm.inTrain(since) }

// stray is the last message in a row of trains that belongs to none.
func (r *classRow) stray() time.Time {
	if r.braid.on && (r.period == 0 || !r.apart.Before(r.braid.apart)) {
		return r.braid.apart
	}
	return r.rhythm.stray()
}

// source is what is known of a remote address.
type source struct {
	addr        netip.Addr
	node        bool      // kubelet probes come from here
	counts      bool      // whether its traffic can hold the drain
	plain       time.Time // last activity that is no train
	classes     map[class]*classRow
	crowd       bool          // stands for many
	active      time.Time     // last activity, as settled last
	gap         time.Duration // longest between two activities
	connections uint64
	messages    uint64
	owed        int
	checks
	tokens map[uint16]*bucket
	probes map[class]*train // of the kubelet, by what they ask
}

// enter takes a message that may be one of a train.
func (s *source) enter(k class, at time.Time) {
	if row := s.row(k); row != nil {
		row.add(k, at)
	} else {
		s.plain = later(s.plain, at)
	}
}

// unseen takes a sign of traffic whose connection was never seen: it stays in the source's line.
func (s *source) unseen(k class, at time.Time) {
	s.enter(k, at)
	if row := s.row(k); row != nil {
		row.untrained = at
	}
}

// row finds a source's line of a class, or makes it; nil where the source stands for many.
func (s *source) row(k class) *classRow {
	if s.crowd {
		return nil
	}
	r := s.classes[k]
	if r == nil {
		if s.classes == nil {
			s.classes = map[class]*classRow{}
		}
		if len(s.classes) >= maxClasses {
			s.evict()
		}
		r = &classRow{}
		s.classes[k] = r
	}
	return r
}

// alike is by how much the first messages of two connections may differ to be of one class: HTTP/2 has a client
// acknowledge SETTINGS and PING, or not any more, before it closes.
const alike = 32

// like finds the class that a connection's first message belongs to: one that is known and near, or its own.
func (s *source) like(k class) class {
	if s.classes[k] != nil {
		return k
	}
	best := k
	for other := range s.classes {
		if other.port != k.port || other.small != k.small || distance(other.bytes, k.bytes) > alike {
			continue
		}
		// Of two that are as near it is the smaller one, so that the order of a map decides nothing.
		d, least := distance(other.bytes, k.bytes), distance(best.bytes, k.bytes)
		if best == k || d < least || d == least && other.bytes < best.bytes {
			best = other
		}
	}
	return best
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// evict makes room among the classes: the one in no train that was longest silent was plain traffic.
func (s *source) evict() {
	var oldest *classRow
	var key class
	for k, r := range s.classes {
		if oldest == nil || oldest.inTrain(0) && !r.inTrain(0) || oldest.inTrain(0) == r.inTrain(0) && r.last.Before(oldest.last) {
			oldest, key = r, k
		}
	}
	s.plain = later(s.plain, later(oldest.untrained, oldest.stray()))
	delete(s.classes, key)
}

// discounts tells whether a train of this class is known to be no traffic.
func (s *source) discounts(k class, since time.Duration) bool {
	return since >= trainLimit || !s.told.IsZero() || !s.plain.IsZero() || k.small || s.otherTraffic(k, since)
}

// otherTraffic tells whether a source showed traffic beside a train: messages that came at no even spacing.
func (s *source) otherTraffic(k class, since time.Duration) bool {
	n := 0
	for other, row := range s.classes {
		if other != k && !row.inTrain(since) {
			n += row.count
		}
	}
	return n >= 3
}
