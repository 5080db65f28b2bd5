package drain

import (
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// settle draws the conclusions: the phase, the hold, the exit.
func (m *Machine) settle(now time.Time) {
	if m.phase == Draining && m.appGone() && m.ever {
		m.enter(now, Covering, "the application's listener is gone")
	}
	if m.ledger.doubtful && now.Sub(m.start) >= trainLimit {
		m.owed = m.ledger.countOwed(now.Sub(m.start))
	}
	m.ledger.follow(now.Sub(m.start))
	at, ok := m.quietAt(now)
	m.due = at
	quiet := ok && m.fresh && !now.Before(at)
	if m.released == "" {
		switch {
		case quiet:
			m.release(now, m.quietReason())
		case !now.Before(m.holdEnd()):
			m.release(now, ReasonDeadline)
		}
	}
	if m.terminated.IsZero() {
		return
	}
	switch {
	case m.neverListened(now):
		m.exit(now, ReasonNothing)
	case m.config.ObserveOnly && m.appEnded():
		m.exit(now, ReasonObserved)
	case !now.Before(m.exitEnd()): // first: an application that had to be killed leaves it quiet
		m.exit(now, ReasonDeadline)
	case quiet && m.appEnded():
		m.exit(now, m.quietReason())
	}
}

func (m *Machine) release(now time.Time, reason string) {
	m.released, m.releasedAt = reason, now
	m.leftOpen, m.leftOwed = m.connections, m.owed
	if reason == ReasonDeadline && !m.unseen && !m.blind && !m.deaf {
		m.leftNeeded = m.due.Sub(m.start)
		if m.owed > 0 {
			m.leftNeeded = now.Add(m.config.Quiet).Sub(m.start)
		}
	}
	m.do(Release{})
	m.note(slog.LevelInfo, "hold released", slog.String("phase", string(m.phase)), slog.String("reason", reason),
		slog.Duration("elapsed", now.Sub(m.start)), slog.Int("connections", m.leftOpen), slog.Int("owed", m.leftOwed))
	if !m.ledger.envoySeen && (len(m.config.Envoy) > 0 || m.ledger.envoys != nil) && m.ever {
		of := "--envoy"
		if m.config.EnvoySlices {
			of += " and --envoy-slices"
		}
		m.degrade("no address of %s was seen: if Envoy comes through NAT, name the address it has here", of)
	}
}

func (m *Machine) exit(now time.Time, reason string) {
	m.reason, m.ended = reason, now
	m.enter(now, Done, reason)
	m.do(Exit{m.words(now, "exit")})
}

// holdEnd is the moment at which the hold ends whatever happens.
func (m *Machine) holdEnd() time.Time { return m.start.Add(m.config.holdFor()) }

// exitEnd is the latest exit after a SIGTERM: the kubelet's SIGKILL follows.
func (m *Machine) exitEnd() time.Time { return m.start.Add(m.config.GracePeriod - exitMargin) }

// neverListened tells whether there was nothing to drain, ever. A death may be told a second late, and a plain sidecar's
// SIGTERM comes with the application's: what has just closed is in no list. Who cannot hear deaths cannot know.
func (m *Machine) neverListened(now time.Time) bool {
	return !m.ever && !m.unseen && !m.deaf && !now.Before(m.start.Add(lateDeath))
}

// appGone tells whether no listener of the application is left.
func (m *Machine) appGone() bool {
	if m.first || m.unseen {
		return false // nobody has looked yet, or nobody can
	}
	for _, p := range m.ports {
		if p.state == portListening {
			return false
		}
	}
	return true
}

// appEnded tells whether neither a listener nor a connection of the application is left.
func (m *Machine) appEnded() bool { return m.appGone() && m.connections == 0 }

// quietAt is when it will be quiet if nothing comes any more; not ok while a connection is owed.
// It has come true only in a sample that no segment has followed.
func (m *Machine) quietAt(now time.Time) (time.Time, bool) {
	if m.unseen {
		return m.exitEnd(), true
	}
	if m.owed > 0 {
		return time.Time{}, false
	}
	last, at := m.ledger.quietAt(now.Sub(m.start), m.start)
	// What was lost, was lost at some moment up to then.
	last, at = later(last, m.lostAt), later(at, m.lostAt.Add(m.config.Quiet))
	if m.blind || m.deaf {
		return later(at, m.start.Add(m.config.blindFor())), true
	}
	at = later(at, m.start.Add(m.config.Min))
	if told, ok := m.toldAt(last); ok && told.Before(at) {
		at = told
	}
	return at, true
}

// quietReason tells a silence that was seen from one that was only waited for.
func (m *Machine) quietReason() string {
	if m.blind || m.deaf {
		return ReasonBlind
	}
	return ReasonQuiet
}

// Stale tells whether the last sample may no longer be true: it is older than the last segment received, or shows what
// time alone changes: an answer being sent, an accept queue, sock_diag's refusal.
func (m *Machine) Stale() bool {
	return !m.fresh || m.blind || m.ledger.fading || slices.ContainsFunc(m.ports, func(p *port) bool { return !p.queuedSince.IsZero() })
}

// Wake is when the next Tick is due at the latest; zero while serving and when done.
func (m *Machine) Wake(now time.Time) time.Time {
	if m.phase == Serving || m.phase == Done {
		return time.Time{}
	}
	var wake time.Time
	sooner := func(at time.Time) {
		if at.After(now) && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
	}
	sooner(m.due)
	sooner(m.start.Add(lateDeath))
	sooner(m.holdEnd())
	sooner(m.exitEnd())
	sooner(m.start.Add(trainLimit))
	return wake
}

// waitsFor says in words what the drain waits for.
func (m *Machine) waitsFor(now time.Time) string {
	left := func(at time.Time) string { return fmt.Sprintf("%.1f s", max(0, at.Sub(now).Seconds())) }
	at, ok := m.quietAt(now)
	switch {
	case m.phase == Serving:
		return "the pod's end"
	case m.phase == Done:
		return "nothing"
	case m.unseen:
		return "its deadline in " + left(m.exitEnd()) + ": it cannot see the pod's sockets"
	case (m.blind || m.deaf) && now.Before(at):
		return "its blind wait to end in " + left(at) + ": it cannot see when data comes"
	case m.owed > 0:
		return fmt.Sprintf("the answers that are owed on %d connections, until its deadline in %s", m.owed, left(m.holdEnd()))
	case ok && now.Before(at):
		return "silence: " + m.silence(now) + ", quiet in " + left(at) + m.notTold(now)
	case m.terminated.IsZero():
		return "SIGTERM"
	}
	return fmt.Sprintf("the application to end (%d connections), until its deadline in %s", m.connections, left(m.exitEnd()))
}

// silence says who sent last, and when.
func (m *Machine) silence(now time.Time) string {
	var who *source
	var last time.Time
	for s, at := range m.ledger.lasts(now.Sub(m.start)) {
		if at.After(last) {
			last, who = at, s
		}
	}
	if who == nil {
		return "no source has sent a request since the trigger"
	}
	return fmt.Sprintf("%s sent its last request %.1f s ago", who.name(), now.Sub(last).Seconds())
}
