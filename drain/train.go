package drain

import "time"

const (
	// minSpacing is the least spacing of a train: Envoy's health checkers do not check more often in practice,
	// and real traffic of equal requests does.
	minSpacing = 500 * time.Millisecond
	// smallTrain: below it a message is no request that Envoy forwarded, since Envoy's own headers
	// (x-request-id, x-forwarded-proto, x-envoy-…) make an HTTP/1.1 request longer.
	smallTrain = 128
	// mayTrain bounds a message that may belong to a train: one segment of an Ethernet, or two.
	mayTrainBytes, mayTrainSegments = 1448, 2
	// maxMissed is how many periods a gap of a train may span: messages between two samples can go unseen.
	maxMissed = 3
)

// train recognises a row of equal messages at an even spacing.
type train struct {
	last   time.Time
	gap    time.Duration // between the last two
	n      int           // equal messages seen
	period time.Duration // of the recognised train, else 0
}

// add takes the next message and tells whether the row is a train now.
// A message that does not fit a recognised train ends it: it may be a request.
func (t *train) add(at time.Time) bool {
	gap := at.Sub(t.last)
	switch {
	case t.n == 0:
		t.n = 1
	case t.period > 0 && !fits(gap, t.period):
		*t = train{n: 1}
	case t.period == 0 && t.n >= 2 && even(gap, t.gap):
		t.n, t.period = t.n+1, (gap+t.gap)/2
	default:
		t.n++
	}
	t.last, t.gap = at, gap
	return t.period > 0
}

// known starts a train that a connection's whole life has shown: equal segments only, and one more after gap.
func (t *train) known(at time.Time, gap time.Duration) {
	*t = train{last: at, gap: gap, n: 3, period: gap}
}

// even tells whether two spacings are those of one train.
func even(a, b time.Duration) bool { return near(a, b, max(a, b)) }

// fits tells whether a spacing is the train's period, or a multiple of it where messages have gone unseen.
func fits(gap, period time.Duration) bool {
	for k := range time.Duration(maxMissed) {
		if near(gap, (k+1)*period, period) {
			return true
		}
	}
	return false
}

// near tells whether two spacings differ by no more than a quarter of a period: Envoy's interval_jitter and a busy
// machine move a check by a fraction of its interval.
func near(a, b, period time.Duration) bool {
	return min(a, b) >= minSpacing && max(a, b)-min(a, b) <= period/4+50*time.Millisecond
}
