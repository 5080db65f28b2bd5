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

// classRow is what a source sent in one class, over all its connections.
type classRow struct {
	train
	braid braid
	count int
	// The last message on connections that are gone (a refused SYN never had one): of trains, and of all others.
	trained, untrained time.Time
}

func (r *classRow) add(k class, at time.Time) {
	r.count++
	r.train.add(at, k.small)
	if k.small {
		r.braid.add(at)
	}
}

func (r *classRow) inTrain() bool { return r.period > 0 || r.braid.on }

// stray is the last message in a row of trains that belongs to none.
func (r *classRow) stray() time.Time {
	if r.braid.on {
		return time.Time{}
	}
	return r.apart
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

// enter takes a message that may be one of a train.
func (s *source) enter(k class, at time.Time) {
	if row := s.row(k); row != nil {
		row.add(k, at)
	} else {
		s.plain = later(s.plain, at)
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

// evict makes room among the classes: the one in no train that was longest silent was plain traffic.
func (s *source) evict() {
	var oldest *classRow
	var key class
	for k, r := range s.classes {
		if oldest == nil || oldest.inTrain() && !r.inTrain() || oldest.inTrain() == r.inTrain() && r.last.Before(oldest.last) {
			oldest, key = r, k
		}
	}
	s.plain = later(s.plain, later(oldest.untrained, oldest.stray()))
	delete(s.classes, key)
}

// discounts tells whether a train of this class is known to be no traffic.
func (s *source) discounts(k class, since time.Duration) bool {
	return since >= trainLimit || s.here || !s.plain.IsZero() || k.small || s.otherTraffic(k)
}

// otherTraffic tells whether a source showed traffic beside a train: messages that came at no even spacing.
func (s *source) otherTraffic(k class) bool {
	n := 0
	for other, row := range s.classes {
		if other != k && !row.inTrain() {
			n += row.count
		}
	}
	return n >= 3
}
