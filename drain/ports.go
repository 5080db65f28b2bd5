package drain

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"lameduck/netns/takeover"
)

// maxPorts bounds the listeners that are remembered.
const maxPorts = 1024

type portState uint8

const (
	portListening portState = iota
	portGone
	portTaken
)

// port is one listener of the application.
type port struct {
	listener    takeover.Listener
	state       portState
	queuedSince time.Time // since when its accept queue has not been empty
	stuck       bool
	seen        bool
}

// listening remembers the pod's listeners; what is not listening is no death: only an event is.
func (m *Machine) listening(e Listening) {
	m.listed = map[netip.AddrPort]bool{}
	for i := range e.Listeners {
		s := &e.Listeners[i]
		if m.appListener(s.Local) {
			m.ever, m.listed[s.Local] = true, true
			m.known[s.Local] = takeover.Listener{Addr: s.Local, V6Only: s.V6Only}
			delete(m.deaths, s.Local)
		}
	}
}

// appListener tells whether an address that is listened on is the application's: loopback serves nobody outside.
func (m *Machine) appListener(a netip.AddrPort) bool {
	return m.config.appPort(a.Port()) && !a.Addr().IsLoopback()
}

func (m *Machine) listenerDied(now time.Time, a netip.AddrPort) {
	if !m.appListener(a) {
		return
	}
	m.ever = true
	if m.phase == Serving {
		if len(m.deaths) < maxPorts { // an application that opens and closes ports all day must not grow us
			m.deaths[a] = now
		}
		return
	}
	i := slices.IndexFunc(m.ports, func(p *port) bool { return p.listener.Addr == a })
	switch {
	case i < 0 && len(m.ports) < maxPorts:
		// It had closed already when the trigger came, and is told late.
		late := &port{listener: takeover.Listener{Addr: a}, state: portGone}
		m.ports = append(m.ports, late)
		m.watch([]*port{late})
	case i >= 0 && m.ports[i].state == portListening:
		m.ports[i].state = portGone
	}
	m.do(Kick{})
	m.do(Sample{})
}

// watch follows all ports, and readies the takeover of these.
func (m *Machine) watch(these []*port) {
	var numbers []uint16
	for _, p := range m.ports {
		if !slices.Contains(numbers, p.listener.Addr.Port()) {
			numbers = append(numbers, p.listener.Addr.Port())
		}
	}
	m.do(Watch{numbers})
	if m.config.ObserveOnly {
		return
	}
	for _, p := range these {
		m.do(Arm{p.listener})
	}
}

// findPorts settles which listeners the drain is about: those that live, and those that died a moment ago,
// since an application without a hook may be gone before the trigger comes (an exec hook takes 40 to 430 ms).
func (m *Machine) findPorts(now time.Time) {
	for a, l := range m.known {
		died, dead := m.deaths[a]
		switch {
		case dead && now.Sub(died) > recentDeath:
		case dead || !m.listed[a]: // the kernel may tell a death a second late
			m.ports = append(m.ports, &port{listener: l, state: portGone})
		default:
			m.ports = append(m.ports, &port{listener: l})
		}
	}
	for a, died := range m.deaths {
		if _, ok := m.known[a]; !ok && now.Sub(died) <= recentDeath {
			m.ports = append(m.ports, &port{listener: takeover.Listener{Addr: a}, state: portGone})
		}
	}
	slices.SortFunc(m.ports, func(a, b *port) int { return a.listener.Addr.Compare(b.listener.Addr) })
}

func (m *Machine) appPort(number uint16) bool {
	return slices.ContainsFunc(m.ports, func(p *port) bool { return p.listener.Addr.Port() == number })
}

// uncovered tells whether the kernel refuses on an application port: its listener is gone, and not taken over.
func (m *Machine) uncovered() bool {
	if m.phase == Serving {
		return len(m.deaths) > 0
	}
	if len(m.ports) == 0 {
		return m.ever
	}
	return slices.ContainsFunc(m.ports, func(p *port) bool { return p.state == portGone })
}

func (m *Machine) setPort(l takeover.Listener, state portState) {
	for _, p := range m.ports {
		if p.listener.Addr == l.Addr {
			p.state, p.stuck = state, false
		}
	}
}

// seeListener follows a listener's accept queue: nobody accepts where a child process holds a dead application's port.
func (m *Machine) seeListener(now time.Time, s *Seen) {
	for _, p := range m.ports {
		if p.listener.Addr != s.Local {
			continue
		}
		p.seen = true
		if s.Ours || p.state == portTaken {
			continue
		}
		p.state = portListening
		switch {
		case s.RQueue == 0:
			p.queuedSince, p.stuck = time.Time{}, false
		case p.queuedSince.IsZero():
			p.queuedSince = now
		case !p.stuck && now.Sub(p.queuedSince) >= stuckAfter:
			p.stuck = true
			m.note(slog.LevelWarn, "app stuck", slog.String("phase", string(m.phase)),
				slog.String("reason", fmt.Sprintf("%s accepts nothing: %d connections wait; a child process may hold the listener", s.Local, s.RQueue)),
				slog.Duration("elapsed", now.Sub(m.start)))
		}
	}
}
