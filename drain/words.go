package drain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// LastWords is what is left of a drain when its pod is gone: one JSON line, at SIGTERM and again at the exit.
// Durations are in seconds.
type LastWords struct {
	LastWords string `json:"last_words"` // "SIGTERM" or "exit"
	Phase     Phase  `json:"phase"`
	// Reason is that of the exit; at SIGTERM that of the hold's release. Empty where neither has come.
	Reason string `json:"reason"`
	// Released is why the hold was released; empty where it has not been.
	Released string `json:"released"`
	Trigger  string `json:"trigger"`
	// Elapsed since the trigger, Held until the hold's release (0: not yet), Lag until the last activity.
	Elapsed float64 `json:"elapsed"`
	Held    float64 `json:"held"`
	Lag     float64 `json:"lag"`
	// Why says the reason in words, and what would have helped.
	Why string `json:"why"`
	// GraceNeeded is the grace period that would have been enough, as far as the traffic showed it.
	GraceNeeded int `json:"grace_needed"`
	// Sending are the sources that were active within the last quiet window, latest first, eight at most.
	Sending     []string `json:"sending"`
	Owed        int      `json:"owed"`
	Connections int      `json:"connections"`
	// LeftOpen are the application's connections at the hold's release, LeftOwed those of them that were still owed an
	// answer, or the rest of one: streams without an end, which ended with the application.
	LeftOpen    int      `json:"left_open"`
	LeftOwed    int      `json:"left_owed"`
	Refused     uint64   `json:"refused"`
	Relayed     uint64   `json:"relayed"`
	RelayFailed uint64   `json:"relay_failed"`
	Degraded    []string `json:"degraded"`
}

// maxSending keeps the last words below the 4096 bytes that Kubernetes keeps of a termination message.
const maxSending = 8

func (m *Machine) words(now time.Time, moment string) LastWords {
	w := LastWords{
		LastWords:   moment,
		Phase:       m.phase,
		Reason:      cmp.Or(m.reason, m.released),
		Released:    m.released,
		Trigger:     m.trigger,
		Elapsed:     seconds(now.Sub(m.start)),
		Lag:         seconds(m.lag(now)),
		Owed:        m.owed,
		Connections: m.connections,
		LeftOpen:    m.leftOpen,
		LeftOwed:    m.leftOwed,
		Refused:     m.refused,
		Degraded:    append([]string{}, m.degraded...),
		Sending:     m.sending(now),
	}
	if m.released != "" {
		w.Held = seconds(max(0, m.releasedAt.Sub(m.start)))
	}
	w.GraceNeeded = m.graceNeeded(now, len(w.Sending) > 0)
	w.Why = m.why(now, w)
	return w
}

// lag is the propagation lag as far as the traffic showed it.
func (m *Machine) lag(now time.Time) time.Duration {
	last := m.ledger.activity(now.Sub(m.start))
	return max(0, last.Sub(m.start))
}

// graceNeeded is the hold that would have ended at quiet, and the reserve.
func (m *Machine) graceNeeded(now time.Time, sending bool) int {
	hold := max(m.config.Min, m.lag(now)+m.config.Quiet)
	if m.owed > 0 || sending {
		hold = max(hold, now.Sub(m.start)+m.config.Quiet)
	}
	hold = max(hold, m.leftNeeded)
	return int(math.Ceil((hold + m.config.Reserve).Seconds()))
}

func (m *Machine) why(now time.Time, w LastWords) string {
	switch {
	case w.Reason == ReasonQuiet:
		return "inbound traffic from Envoy has stopped" + w.cost()
	case w.Reason == ReasonBlind:
		return "the pod's sockets could not be watched; the time that a sleep would take has passed"
	case w.Reason == ReasonNothing:
		return "no application port was ever listened on"
	case w.Reason == ReasonObserved:
		return "observe-only: the application is gone"
	case w.Reason == "":
		return "waiting for " + m.waitsFor(now)
	case m.unseen || m.blind || m.deaf:
		return "the pod's sockets could not be watched; the time was used up"
	case len(w.Sending) > 0:
		return fmt.Sprintf("traffic was still coming; a grace period of more than %d s is needed, or Envoy never learned that this pod is ending", w.GraceNeeded)
	case w.Owed > 0:
		return fmt.Sprintf("%d requests had no answer yet; a grace period of more than %d s is needed", w.Owed, w.GraceNeeded)
	case w.LeftOwed > 0:
		return fmt.Sprintf("%d requests had no answer, or not the whole of it, when the hold ended; streams that do not end are such; to await them takes a grace period of more than %d s", w.LeftOwed, w.GraceNeeded)
	case m.released == ReasonQuiet && m.appEnded():
		return fmt.Sprintf("it was quiet %.1f s after the trigger; the application took all that was left of the grace period", w.Held)
	case !m.appEnded():
		return fmt.Sprintf("the application did not end: %d listeners and %d connections are left", m.listenersLeft(), w.Connections)
	}
	return fmt.Sprintf("the grace period ended before it was quiet; %d s is enough", w.GraceNeeded)
}

// cost is what the end may have cost though it was quiet at last.
func (w LastWords) cost() string {
	switch {
	case w.LeftOwed > 0:
		return fmt.Sprintf(", but %d requests had no answer, or not the whole of it, when the hold ended (%s); to await them takes a grace period of more than %d s",
			w.LeftOwed, w.Released, w.GraceNeeded)
	case w.Released == ReasonDeadline:
		return fmt.Sprintf(", but not before the hold's deadline; a grace period of more than %d s is needed", w.GraceNeeded)
	}
	return ""
}

func (m *Machine) listenersLeft() int {
	n := 0
	for _, p := range m.ports {
		n += boolInt(p.state == portListening)
	}
	return n
}

// sending names the sources that were active within the last quiet window.
func (m *Machine) sending(now time.Time) []string {
	lasts := m.ledger.lasts(now.Sub(m.start))
	var active []*source
	for s, at := range lasts {
		if now.Sub(at) < m.config.Quiet {
			active = append(active, s)
		}
	}
	slices.SortFunc(active, func(a, b *source) int {
		return cmp.Or(lasts[b].Compare(lasts[a]), a.addr.Compare(b.addr))
	})
	names := []string{}
	for _, s := range active[:min(len(active), maxSending)] {
		names = append(names, s.name())
	}
	return names
}

func (s *source) name() string {
	switch {
	case s.addr.IsValid():
		return s.addr.String()
	case s.crowd:
		return fmt.Sprintf("one of more than %d sources", maxSources)
	}
	return "a refused client"
}

func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// Status is a copy of what is known. holds and relay are known to the machine's owner only.
func (m *Machine) Status(now time.Time, holds int, relay Relay) Status {
	s := Status{
		Phase:       m.phase,
		WaitsFor:    m.waitsFor(now),
		Trigger:     m.trigger,
		Terminated:  !m.terminated.IsZero(),
		Holds:       holds,
		Released:    m.released,
		Owed:        m.owed,
		Connections: m.connections,
		Refused:     m.refused,
		Ports:       []Port{},
		Sources:     []Source{},
		Relay:       relay,
		Degraded:    append([]string{}, m.degraded...),
	}
	if m.phase != Serving {
		start := m.start
		s.StartedAt, s.ElapsedSeconds, s.LagSeconds = &start, seconds(now.Sub(start)), seconds(m.lag(now))
		for _, p := range m.ports {
			s.Ports = append(s.Ports, p.status())
		}
	} else {
		for a := range m.listed {
			s.Ports = append(s.Ports, Port{Address: a.String(), State: "listening"})
		}
	}
	slices.SortFunc(s.Ports, func(a, b Port) int { return cmp.Compare(a.Address, b.Address) })
	lasts := m.ledger.lasts(now.Sub(m.start))
	for _, src := range m.ledger.sources {
		if src.addr.IsValid() {
			s.Sources = append(s.Sources, m.sourceStatus(now, src, lasts[src]))
		}
	}
	slices.SortFunc(s.Sources, func(a, b Source) int { return a.Address.Compare(b.Address) })
	return s
}

func (p *port) status() Port {
	states := [...]string{portListening: "listening", portGone: "gone", portTaken: "taken"}
	state := states[p.state]
	if p.stuck {
		state = "stuck"
	}
	return Port{Address: p.listener.Addr.String(), State: state}
}

func (m *Machine) sourceStatus(now time.Time, s *source, last time.Time) Source {
	row := Source{Address: s.addr, Connections: s.connections, Messages: s.messages, Owed: s.owed}
	s.enterChecks(now, &row)
	if !last.IsZero() {
		row.LastActivitySeconds = seconds(now.Sub(last))
	}
	switch {
	case s.node && !s.counts:
		row.Ignored = "the node: probes"
	case s.node:
		row.Remark = "the node: more traffic than probes make, so it counts"
	case s.addr.IsLoopback() || m.ledger.own[s.addr]:
		row.Ignored = "the pod itself"
	case !s.counts:
		row.Ignored = "not an address of --envoy"
	case last.IsZero() && s.messages+s.connections > 0:
		row.Ignored = "health checks only"
	}
	return row
}
