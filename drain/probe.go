package drain

import "time"

// The kubelet's probes come from the node, and carry nobody's request.

const (
	// The kubelet's probes of one port: two a second, and what jitter may push together.
	probeRate, probeBurst = 2, 4
	// probeSegments is what one probe sends at the most: a gRPC check's frames, or a
	// TLS handshake and a request (4 to 8 segments were measured of gRPC).
	probeSegments = 16
	// maxProbes bounds those of a source that are told apart.
	maxProbes = 16
)

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

// probed follows what a probe has asked, and when.
func (s *source) probed(k class, at time.Time) {
	for known, row := range s.probes {
		if known.port == k.port && distance(known.bytes, k.bytes) <= alike {
			if at.After(row.last) {
				row.add(at, small)
			}
			return
		}
	}
	if s.probes == nil {
		s.probes = map[class]*train{}
	}
	if len(s.probes) < maxProbes {
		s.probes[k] = &train{n: 1, last: at}
	}
}

// probeDue tells whether a SYN that was refused at that moment is a probe in step with those before. The kubelet goes on
// probing a container that has ended, for as long as its pod has another (measured), and would keep the pod for it.
func (l *ledger) probeDue(at time.Time) bool {
	var due *train // of several the one that has waited longest
	for _, s := range l.sources {
		for _, row := range s.probes {
			if next := *row; s.node && next.add(at, small) && (due == nil || row.last.Before(due.last)) {
				due = row
			}
		}
	}
	return due != nil && due.add(at, small)
}
