package drain

import "time"

const (
	// minSpacing is the least spacing of a train: Envoy's health checkers do not check more often in practice,
	// and real traffic of equal requests does.
	minSpacing = 500 * time.Millisecond
	// smallTrain: below it a message is no request that Envoy forwarded over HTTP/1.1, since Envoy's own headers
	// (x-request-id, x-forwarded-proto, x-envoy-…) make that longer.
	smallTrain = 128
	// mayTrain bounds a message that may belong to a train: what fits one segment of an Ethernet, in the frames that a gRPC
	// check and the control frames around it come in.
	mayTrainBytes, mayTrainSegments = 1448, 4
	// maxMissed is how many periods a gap may span, but of a strict pace: one between two samples can go unseen.
	maxMissed = 3
)

// pace is how even a row must be to be a train.
type pace uint8

const (
	// small messages speak for themselves: Envoy's interval_jitter and a busy machine move them by a fraction of the interval.
	small pace = iota
	// strict is asked of what may be requests: equal ones at random moments must not look like a train by chance.
	strict
	// loose is what checks with much jitter keep to, and what equal requests at random moments seldom do. It is looked at
	// only when the sleep would be over.
	loose
)

// needed is how many messages in step make a train.
func (p pace) needed() int {
	if p == small {
		return 3
	}
	return 6
}

// leeway is by how much a spacing may miss another.
func (p pace) leeway(spacing time.Duration) time.Duration {
	switch p {
	case small:
		return spacing/4 + 50*time.Millisecond
	case strict:
		return spacing/20 + 20*time.Millisecond
	}
	return spacing / 2
}

// near tells whether two spacings are the same; leeway is taken of the third.
func (p pace) near(a, b, of time.Duration) bool {
	return min(a, b) >= minSpacing && max(a, b)-min(a, b) <= p.leeway(of)
}

// fits tells whether a spacing is the train's period, or a multiple of it where messages have gone unseen.
func (p pace) fits(gap, period time.Duration) bool {
	if p == strict {
		return p.near(gap, period, max(gap, period))
	}
	for k := range time.Duration(maxMissed) {
		if p.near(gap, (k+1)*period, period) {
			return true
		}
	}
	return false
}

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
func (t *train) add(at time.Time, p pace) bool {
	gap := at.Sub(t.last)
	switch {
	case t.n < 2 || t.period > 0 && p.fits(gap, t.period):
		t.n++
	case t.period > 0:
		t.n, t.period = 1, 0
	case p.near(gap, t.gap, max(gap, t.gap)):
		t.n++
		if t.n >= p.needed() {
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
	*t = train{last: at, gap: gap, n: small.needed(), period: gap}
}

// rhythm looks for a train in a row of messages of one class: at the class's own pace, and loosely beside it for those that are
// not small.
type rhythm struct {
	train
	slack train
}

// add takes the next message and tells whether the row is a train at its own pace now.
func (r *rhythm) add(at time.Time, k class) bool {
	if !k.small {
		r.slack.add(at, loose)
	}
	return r.train.add(at, k.pace())
}

// inTrain tells whether the row is a train; since is the time since the trigger.
func (r *rhythm) inTrain(since time.Duration) bool {
	return r.period > 0 || since >= trainLimit && r.slack.period > 0
}

// stray is the last message of a row in a train that belongs to none.
func (r *rhythm) stray() time.Time {
	if r.period > 0 {
		return r.apart
	}
	return r.slack.apart
}

// expects tells whether a message at that moment is the train's next one.
func (r *rhythm) expects(at time.Time, k class, since time.Duration) bool {
	if r.period > 0 {
		return k.pace().fits(at.Sub(r.last), r.period)
	}
	return r.inTrain(since) && loose.fits(at.Sub(r.slack.last), r.slack.period)
}

// braid recognises several trains of small messages that run together: an Envoy has a checker for each of its clusters,
// and all of them check the same pod.
type braid struct {
	recent [8]time.Time // the last messages, latest first
	steps  int          // messages in a row that had two predecessors at one spacing
	on     bool
	apart  time.Time // the last message that had not
}

// braidLeeway is by how much a message may miss its place. Of messages close together many spacings can be made.
const braidLeeway = 20 * time.Millisecond

// add takes the next message and tells whether the row is a braid now.
func (b *braid) add(at time.Time) bool {
	if b.inStep(at) {
		b.steps++
	} else {
		b.steps, b.apart = 0, at
	}
	b.on = b.steps >= 4 || b.on && b.steps > 0
	copy(b.recent[1:], b.recent[:])
	b.recent[0] = at
	return b.on
}

func (b *braid) inStep(at time.Time) bool {
	for i, one := range b.recent {
		for _, two := range b.recent[i+1:] {
			if period := one.Sub(two); !two.IsZero() && period >= minSpacing && (at.Sub(one)-period).Abs() <= braidLeeway {
				return true
			}
		}
	}
	return false
}
