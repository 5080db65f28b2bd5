package drain

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

// Reasons for a hold's release and for the exit.
const (
	ReasonQuiet    = "quiet"
	ReasonDeadline = "deadline"
	ReasonNothing  = "nothing listened"
	ReasonObserved = "observed" // observe-only: the application is gone
	ReasonBlind    = "blind"    // traffic could not be seen: the time that a sleep would take has passed
)

// Machine is the drain's state. It is pure: the clock is passed in, nothing is done but to return effects.
// It is not safe for concurrent use.
type Machine struct {
	config  Config
	phase   Phase
	ledger  ledger
	effects []Effect

	// While serving.
	known   map[netip.AddrPort]takeover.Listener // listeners seen, for what a death's event does not tell (V6ONLY)
	listed  map[netip.AddrPort]bool              // the last whole list
	deaths  map[netip.AddrPort]time.Time
	ever    bool // something has listened
	crowded bool // more listens than can be watched

	// From the trigger on.
	trigger    string
	start      time.Time
	terminated time.Time
	released   string // reason, empty while the hold lasts
	releasedAt time.Time
	// What the release left to the application's own shutdown, and how long a hold would have been enough for it.
	leftOpen, leftOwed int
	leftNeeded         time.Duration
	reason             string // of the exit
	ended              time.Time
	ports              []*port
	first              bool // no sample has been taken yet
	fresh              bool // the last sample is newer than the last segment received
	opened             bool // it showed a listener that is new
	blind              bool
	deaf               bool      // destroy events are not heard: connections between two samples go unseen
	unseen             bool      // not even /proc tells
	lostAt             time.Time // last moment at which events were lost or samples failed: anything may have happened

	refusedAt uint64 // the counter at its last reading
	refused   uint64
	segments  uint64
	sampledAt uint64 // these at the last sample

	owed, connections int
	due               time.Time // when quiet, as settled last; zero while owed
	degraded          []string
	hostNetwork       bool // the pod is in the node's own network
	overlooked        bool // there were more checkers than could be remembered before the trigger
}

// NewMachine returns a machine that is serving.
func NewMachine(config Config) *Machine {
	config = config.withDefaults()
	return &Machine{
		config: config,
		phase:  Serving,
		ledger: newLedger(config),
		known:  map[netip.AddrPort]takeover.Listener{},
		deaths: map[netip.AddrPort]time.Time{},
	}
}

// Next takes one event at a moment that is not before the last one's and returns what is to be done, in order.
// The slice is valid until the next call.
func (m *Machine) Next(now time.Time, event Event) []Effect {
	m.effects = m.effects[:0]
	if m.phase == Done {
		return nil
	}
	switch e := event.(type) {
	case Listening:
		m.listening(now, e)
	case ListenerDied:
		m.listenerDied(now, e.Listener)
	case Triggered:
		m.begin(now, e)
	case Terminated:
		m.terminate(now)
	case Counted:
		m.counted(now, e)
	case Checked:
		m.checked(now, e)
	case CheckerLeft:
		m.checkerLeft(e.Source)
	case Envoys:
		m.ledger.learn(e.Addresses)
		m.owed = m.ledger.countOwed(now.Sub(m.start))
	case Degraded:
		if e.Blind && !m.deaf {
			m.deaf = true
			m.lost(now) // what came on connections that have ended since the last sample is unknown
			m.do(Sample{})
		}
		m.degrade("%s", e.Text)
	default:
		if m.phase != Serving {
			m.watched(now, event)
		}
	}
	if m.phase != Serving && settles(event) {
		m.settle(now)
	}
	return m.effects
}

// settles tells whether an event may lead to a conclusion. The others only postpone one, and may come by the thousand.
func settles(event Event) bool {
	switch event.(type) {
	case Ended, Cut, Counted, Lost, Checked, CheckerLeft, Listening, ListenerDied:
		return false
	}
	return true
}

// watched takes what only a drain hears.
func (m *Machine) watched(now time.Time, event Event) {
	switch e := event.(type) {
	case Sampled:
		m.sampled(now, e)
	case SampleFailed:
		m.lost(now)
		m.blind, m.unseen, m.fresh, m.first = true, true, true, false
		m.degrade("neither sock_diag nor /proc/net/tcp can be read (%v): the drain lasts until its deadline", e.Err)
	case Ended:
		if m.appPort(e.Socket.Local.Port()) {
			if c := m.ledger.close(now, &e, m.holdsPort(e.Socket.Local.Port())); c != nil {
				m.owed -= boolInt(c.held)
				m.connections -= boolInt(c.app)
			}
			m.fresh = m.fresh && len(m.ledger.voids) == 0
		}
	case Cut:
		m.ledger.enterVoid(e.Source, e.Port, now)
	case Lost:
		m.lost(now)
		m.do(Sample{})
	case Took:
		m.setPort(e.Listener, portTaken)
	case Gave:
		m.setPort(e.Listener, portGone)
	}
}

func (m *Machine) do(e Effect) { m.effects = append(m.effects, e) }

func (m *Machine) note(level slog.Level, message string, attrs ...slog.Attr) {
	m.do(Note{level, message, attrs})
}

// degrade says once what lameduck has to do without.
func (m *Machine) degrade(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if slices.Contains(m.degraded, text) || len(m.degraded) >= 32 {
		return
	}
	m.degraded = append(m.degraded, text)
	m.note(slog.LevelWarn, "degraded", slog.String("phase", string(m.phase)), slog.String("reason", text))
}

// enter changes the phase. Phases only go forward.
func (m *Machine) enter(now time.Time, p Phase, reason string) {
	m.phase = p
	m.note(slog.LevelInfo, "phase", slog.String("phase", string(p)), slog.String("reason", reason),
		slog.Duration("elapsed", now.Sub(m.start)))
}

// begin starts the drain, once.
func (m *Machine) begin(now time.Time, e Triggered) {
	if m.phase != Serving {
		return
	}
	m.trigger, m.start, m.first = e.By, now, true
	for _, a := range e.Own {
		m.ledger.own[a.Unmap()] = true
	}
	for _, a := range e.Gateways {
		m.ledger.nodes[a.Unmap()] = true
	}
	m.ledger.reclassify()
	m.enter(now, Draining, "trigger: "+e.By)
	m.findNode()
	m.findPorts(now)
	if m.overlooked && m.config.TrustChecks && m.config.EnvoySlices {
		m.degrade("more than %d addresses have asked the health port: who has to be told is not known, and --trust-checks does nothing", maxCheckers)
	}
	if !m.uncovered() {
		m.refused = 0 // what was refused before the application listened again is not this drain's
	}
	m.watch(m.ports)
	m.do(Sample{})
}

// terminate takes SIGTERM: the plain sidecar's trigger; from now on lameduck may leave.
func (m *Machine) terminate(now time.Time) {
	if !m.terminated.IsZero() {
		return
	}
	m.terminated = now
	// A SIGTERM long after the grace period is not the end of what the trigger began (somebody ran `lameduck drain`
	// by hand): the pod's clock starts here. The kubelet's own late SIGTERM comes within its two seconds.
	if now.Sub(m.start) > m.config.GracePeriod+5*time.Second {
		m.start = now
	}
	m.do(Speak{m.words(now, "SIGTERM")})
	m.do(Sample{})
}

func (m *Machine) lost(now time.Time) {
	m.lostAt, m.fresh = now, false
}

// counted takes the counters: a segment received makes the last sample old, a refused SYN is activity.
func (m *Machine) counted(now time.Time, e Counted) {
	if e.Unknown || e.InSegs != m.segments {
		m.segments, m.fresh = e.InSegs, false
	}
	if e.Unknown {
		return
	}
	if n := e.Refused - m.refusedAt; m.uncovered() && e.Refused > m.refusedAt {
		m.refused += n
		if m.phase != Serving && m.exposed() {
			// Where it has been quiet once, a single one in step with the kubelet's probes is one of them.
			m.ledger.refused(now, n, m.released == ReasonQuiet)
		}
	}
	m.refusedAt = max(m.refusedAt, e.Refused) // two files, read one after the other: the sum may step back
}

// sampled takes a dump.
func (m *Machine) sampled(now time.Time, e Sampled) {
	if e.Blind != nil {
		if !m.blind {
			m.lost(now)
		}
		m.blind = true
		m.degrade("sock_diag is refused (%v): traffic cannot be watched, the hold is a sleep of %s", e.Blind, m.config.blindFor())
	} else if m.blind {
		m.blind = false
		m.lost(now) // what came while nothing could be seen is unknown
	}
	m.unseen = false
	m.ledger.sample++
	m.connections, m.ledger.fading, m.opened = 0, false, false
	for _, p := range m.ports {
		p.seen = false
	}
	owedSockets := 0
	for i := range e.Sockets {
		s := &e.Sockets[i]
		switch {
		case s.State == sockdiag.Listen:
			m.seeListener(now, s)
		case !m.appPort(s.Local.Port()):
		case e.Blind != nil:
			m.connections += boolInt(!s.Ours && accepted(&s.Socket))
			owedSockets += boolInt(queued(&s.Socket) && m.ledger.isEnvoy(s.Remote.Addr()))
		default:
			m.ledger.observe(now, s, m.first)
		}
	}
	m.ledger.sift(m.listens, m.segments != m.sampledAt)
	m.sampledAt = m.segments
	for _, p := range m.ports {
		p.dying = false
		if !p.seen && p.state == portListening {
			p.state, p.queuedSince = portGone, time.Time{}
			m.do(Kick{})
		}
	}
	m.fresh, m.first = !m.opened, false
	if e.Blind != nil {
		m.owed = max(owedSockets, m.ledger.countOwed(now.Sub(m.start))) // an answer that was owed when sight was lost still may be
		return
	}
	m.ledger.vanished(now)
	m.owed = m.ledger.countOwed(now.Sub(m.start))
	for _, c := range m.ledger.connections {
		m.connections += boolInt(c.app)
	}
}
