package drain

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	// checkMemory is how long a checker whose connection has closed is waited for. One that takes a connection for each
	// check cannot be told from its neighbours, but within its interval it has come again, and has been failed then.
	checkMemory = 5 * time.Second
	// maxUntold bounds the checkers that are remembered of a listed source, and of all others together. A source of
	// which one was missed is never told: it has to be quiet.
	maxUntold = 4096
)

// checks is what a source's health checks show.
//
// One Envoy has a checker for each of its clusters, mostly on a connection of its own, and a cluster whose checker has not
// been failed goes on sending. So a source is told when every checker of it that is known has been failed since the trigger.
type checks struct {
	last   time.Time // the last answer; zero if none
	failed bool      // what it was
	// told is when the last of the known checkers was failed; zero until one has been failed since the trigger.
	told   time.Time
	untold map[uint16]checker // by the source's port
	missed bool               // there were more than could be remembered
}

// checker is a connection that has asked, and has not been failed since the trigger.
type checker struct {
	last time.Time
	gone bool // it has closed
}

// checked enters a health check that was answered.
func (m *Machine) checked(now time.Time, e Checked) {
	a := e.Source.Unmap()
	if m.phase == Serving && m.ledger.sources[a] == nil && !m.config.lists(a) && !m.ledger.placeForAChecker(now) {
		m.overlooked = true
		return
	}
	s := m.ledger.source(a)
	s.last, s.failed = now, e.Failed
	switch told := e.Failed && m.phase != Serving; {
	case e.Taken:
		if told && s.told.IsZero() {
			// Its other checkers have asked the application until now. They come within an interval too.
			s.told = now
			m.remember(s, 0, checker{last: now, gone: true})
		}
		return
	case told:
		if _, known := s.untold[e.Port]; known || s.told.IsZero() {
			s.told = now
		}
		delete(s.untold, e.Port)
	default:
		m.remember(s, e.Port, checker{last: now})
	}
}

// remember enters a checker that has to be told.
func (m *Machine) remember(s *source, port uint16, c checker) {
	if _, known := s.untold[port]; !known {
		s.forgetGone(c.last)
		if s.crowd || len(s.untold) >= maxUntold || !m.config.lists(s.addr) && !m.makeRoom(s, c.last) {
			s.missed = true
			return
		}
	}
	if s.untold == nil {
		s.untold = map[uint16]checker{}
	}
	s.untold[port] = c
}

// makeRoom tells whether there is room for one more checker of a source that is not listed, and makes it: by those that have
// gone, else by the source that has most. That one is never told then; who asks seldom is not the one to suffer for it.
func (m *Machine) makeRoom(s *source, now time.Time) bool {
	if m.ledger.untold() < maxUntold {
		return true
	}
	m.ledger.forgetGone(now)
	most := s
	for _, other := range m.ledger.sources {
		if len(other.untold) > len(most.untold) && !m.config.lists(other.addr) {
			most = other
		}
	}
	switch {
	case m.ledger.untold() < maxUntold:
	case most == s:
		return false
	default:
		most.untold, most.missed = nil, true
	}
	return true
}

// forgetGone drops the checkers that are no longer waited for.
func (c *checks) forgetGone(now time.Time) {
	for p, k := range c.untold {
		if k.gone && now.Sub(k.last) > checkMemory {
			delete(c.untold, p)
		}
	}
}

func (l *ledger) forgetGone(now time.Time) {
	for _, s := range l.sources {
		s.forgetGone(now)
	}
}

// placeForAChecker tells whether one more source that checks can be remembered before a drain. Those whose checkers have
// all gone make room: a pod outlives many an Envoy.
func (l *ledger) placeForAChecker(now time.Time) bool {
	if len(l.sources) >= maxCheckers {
		l.forgetGone(now)
		maps.DeleteFunc(l.sources, func(_ netip.Addr, s *source) bool { return len(s.untold) == 0 && !s.missed })
	}
	return len(l.sources) < maxCheckers
}

// untold counts the checkers that are remembered.
func (l *ledger) untold() int {
	n := 0
	for _, s := range l.sources {
		n += len(s.untold)
	}
	return n
}

// checkerLeft hears that a connection which had asked is closed.
func (m *Machine) checkerLeft(a netip.AddrPort) {
	s := m.ledger.sources[a.Addr().Unmap()]
	if s == nil {
		return
	}
	if c, known := s.untold[a.Port()]; known {
		c.gone = true
		s.untold[a.Port()] = c
	}
}

// toldAt is when every checker of a source that is known has been failed; it may be to come. Not ok while that is open.
func (c *checks) toldAt() (at time.Time, ok bool) {
	if c.told.IsZero() || c.missed {
		return time.Time{}, false
	}
	at = c.told
	for _, k := range c.untold {
		if !k.gone {
			return time.Time{}, false
		}
		at = later(at, k.last.Add(checkMemory))
	}
	return at, true
}

// waiting counts the checkers that have not been failed yet.
func (c *checks) waiting(now time.Time) int {
	n := 0
	for _, k := range c.untold {
		n += boolInt(!k.gone || now.Sub(k.last) < checkMemory)
	}
	return n
}

// toTell are the sources that have to be told; not ok while who they are is not known.
func (m *Machine) toTell() (all []netip.Addr, ok bool) {
	if !m.config.TrustChecks || !m.config.listed() {
		return nil, false
	}
	for _, p := range m.config.Envoy {
		all = append(all, p.Addr().Unmap())
	}
	if !m.config.EnvoySlices {
		return all, true
	}
	for a, listed := range m.ledger.envoys {
		if listed {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), m.ledger.envoys != nil && len(m.ledger.envoys) < maxEnvoys && !m.overlooked
}

// toldAt is when every listed source will have been told, and silent for long enough.
func (m *Machine) toldAt(last time.Time) (time.Time, bool) {
	all, ok := m.toTell()
	if !ok {
		return time.Time{}, false
	}
	at := last
	for _, a := range all {
		s := m.ledger.sources[a]
		if s == nil {
			return time.Time{}, false
		}
		told, ok := s.toldAt()
		if !ok {
			return time.Time{}, false
		}
		at = later(at, told)
	}
	return at.Add(toldSilence), true
}

// notTold names the listed sources that --trust-checks waits for.
func (m *Machine) notTold(now time.Time) string {
	all, _ := m.toTell()
	var names []string
	for _, a := range all {
		if s := m.ledger.sources[a]; s != nil {
			if at, ok := s.toldAt(); ok && !now.Before(at) {
				continue
			}
		}
		if len(names) < maxSending {
			names = append(names, a.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; sooner once told: " + strings.Join(names, ", ")
}

// enterChecks writes what the health checks showed into a source's line.
func (c *checks) enterChecks(now time.Time, row *Source) {
	if c.last.IsZero() {
		return
	}
	row.LastCheckSeconds, row.LastAnswer = seconds(now.Sub(c.last)), AnswerWell
	if c.failed {
		row.LastAnswer = AnswerFailed
	}
	if at, ok := c.toldAt(); ok && !now.Before(at) {
		row.Told, row.ToldSeconds = true, seconds(now.Sub(at))
		return
	}
	row.Untold = c.waiting(now)
}
