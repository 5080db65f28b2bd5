package drain

import "time"

const (
	// minSpacing is the least spacing of a train: Envoy's health checkers do not check more often in practice,
	// and real traffic of equal requests does.
	minSpacing = 500 * time.Millisecond
	// smallTrain: below it a message is no request that Envoy forwarded over HTTP/1.1, since Envoy's own headers
	// (x-request-id, x-forwarded-proto, x-envoy-…) make that longer.
	smallTrain = 128
	// mayTrain bounds a message that may belong to a train: one segment of an Ethernet, or two.
	mayTrainBytes, mayTrainSegments = 1448, 2
	// How many messages at one spacing make a train. Small ones speak for themselves; of larger ones, equal requests at
	// random moments must not look like one by chance.
	smallNeeded, largeNeeded = 3, 6
	// maxMissed is how many periods a gap of small messages may span: one between two samples can go unseen.
	maxMissed = 3
)

// train recognises a row of equal messages at an even spacing.
type train struct {
	last   time.Time
	apart  time.Time     // the last message that belongs to no train
	gap    time.Duration // between the last two
	n      int           // messages at one spacing, in a row
	period time.Duration // of the recognised train, else 0
}

// add takes the next message and tells whether the row is a train now. A message out of step may be a request among the
// checks: it ends the train, and a new row begins with it.
func (t *train) add(at time.Time, small bool) bool {
	gap := at.Sub(t.last)
	switch {
	case t.n < 2 || t.period > 0 && fits(gap, t.period, small):
		t.n++
	case t.period > 0:
		t.n, t.period = 1, 0
	case near(gap, t.gap, max(gap, t.gap), small):
		t.n++
		if t.n >= needed(small) {
			t.period = (gap + t.gap) / 2
		}
	default: // the last two may begin a train, the one before them is in none
		t.apart = later(t.apart, t.last.Add(-t.gap))
		t.n = 2
	}
	t.last, t.gap = at, gap
	return t.period > 0
}

// known starts a train that a connection's whole life has shown: small equal segments only, and one more after gap.
func (t *train) known(at time.Time, gap time.Duration) {
	*t = train{last: at, gap: gap, n: smallNeeded, period: gap}
}

func needed(small bool) int {
	if small {
		return smallNeeded
	}
	return largeNeeded
}

// fits tells whether a spacing is the train's period, or a multiple of it where messages have gone unseen.
func fits(gap, period time.Duration, small bool) bool {
	if !small {
		return near(gap, period, period, small)
	}
	for k := range time.Duration(maxMissed) {
		if near(gap, (k+1)*period, period, small) {
			return true
		}
	}
	return false
}

// near tells whether two spacings are the same. Envoy's interval_jitter and a busy machine move a check by a fraction of
// its interval; what may be a request gets no such leeway.
func near(a, b, period time.Duration, small bool) bool {
	leeway := period/20 + 20*time.Millisecond
	if small {
		leeway = period/4 + 50*time.Millisecond
	}
	return min(a, b) >= minSpacing && max(a, b)-min(a, b) <= leeway
}

// braid recognises several trains of small messages that run together: an Envoy has a checker for each of its clusters,
// and all of them check the same pod.
type braid struct {
	recent [8]time.Time // the last messages, latest first
	steps  int          // messages in a row that had two predecessors at one spacing
	on     bool
}

// add takes the next message and tells whether the row is a braid now.
func (b *braid) add(at time.Time) bool {
	if b.inStep(at) {
		b.steps++
	} else {
		b.steps = 0
	}
	b.on = b.steps >= 4 || b.on && b.steps > 0
	copy(b.recent[1:], b.recent[:])
	b.recent[0] = at
	return b.on
}

func (b *braid) inStep(at time.Time) bool {
	for i, one := range b.recent {
		for _, two := range b.recent[i+1:] {
			if !two.IsZero() && near(at.Sub(one), one.Sub(two), at.Sub(one), false) {
				return true
			}
		}
	}
	return false
}
