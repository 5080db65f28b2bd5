package drain

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"lameduck/netns/takeover"
)

// maxPorts bounds the listeners that are remembered, and is what a filter of destroy events may name.
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
	seen        bool // by the present sample
	dying       bool // a listener has died here; the next sample tells whether it was the last (SO_REUSEPORT)
}

// listening remembers the pod's listeners. What is no longer among them has died, though its event may come a second late.
func (m *Machine) listening(now time.Time, e Listening) {
	m.listed, m.crowded = map[netip.AddrPort]bool{}, false
	for i := range e.Listeners {
		s := &e.Listeners[i]
		switch {
		case !m.appListener(s.Local):
		case len(m.listed) >= maxPorts:
			m.crowded = true
		default:
			m.ever, m.listed[s.Local] = true, true
			m.known[s.Local] = takeover.Listener{Addr: s.Local, V6Only: s.V6Only}
			delete(m.deaths, s.Local)
		}
	}
	for a := range m.known {
		if _, dead := m.deaths[a]; !dead && !m.listed[a] {
			m.deaths[a] = now
		}
	}
	m.bury(now)
}

// bury forgets listeners that died too long ago to be taken over: an application that opens and closes ports all day must
// not grow us.
func (m *Machine) bury(now time.Time) {
	for a, died := range m.deaths {
		if now.Sub(died) > recentDeath {
			delete(m.deaths, a)
			delete(m.known, a)
		}
	}
	if len(m.deaths) == 0 {
		m.refused = 0 // what was refused before is not of this end
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
		m.bury(now)
		if len(m.deaths) < maxPorts {
			m.deaths[a] = now
		}
		return
	}
	i := slices.IndexFunc(m.ports, func(p *port) bool { return p.listener.Addr == a })
	switch {
	case i >= 0 && m.ports[i].state == portListening:
		m.ports[i].dying = true
	case i < 0 && len(m.ports) < maxPorts && now.Sub(m.start) <= lateDeath:
		// It had closed already when the trigger came, and is told late.
		m.addPort(takeover.Listener{Addr: a, V6Only: m.besideIPv4(a)}, portGone)
	}
	m.do(Kick{})
	m.do(Sample{})
}

// addPort takes a listener in that the trigger's list did not show.
func (m *Machine) addPort(l takeover.Listener, state portState) {
	p := &port{listener: l, state: state, seen: true}
	m.ports = append(m.ports, p)
	m.watch([]*port{p})
}

// besideIPv4 tells whether [::] was listened on beside 0.0.0.0 of the same port: then it took IPv6 only, which a death's
// event does not tell.
func (m *Machine) besideIPv4(a netip.AddrPort) bool {
	if a.Addr() != netip.IPv6Unspecified() {
		return false
	}
	beside := netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port())
	_, known := m.known[beside]
	_, died := m.deaths[beside]
	return known || died || slices.ContainsFunc(m.ports, func(p *port) bool { return p.listener.Addr == beside })
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
	if m.config.ObserveOnly || m.hostNetwork {
		return
	}
	for _, p := range these {
		m.do(Arm{p.listener})
	}
}

// findPorts settles which listeners the drain is about: those that live, and those that died a moment ago,
// since an application without a hook may be gone before the trigger comes (an exec hook takes 40 to 430 ms).
func (m *Machine) findPorts(now time.Time) {
	m.bury(now)
	for a, l := range m.known {
		state := portListening
		if _, dead := m.deaths[a]; dead {
			state = portGone
		}
		m.ports = append(m.ports, &port{listener: l, state: state})
	}
	for a := range m.deaths {
		if _, ok := m.known[a]; !ok {
			m.ports = append(m.ports, &port{listener: takeover.Listener{Addr: a, V6Only: m.besideIPv4(a)}, state: portGone})
		}
	}
	if m.crowded {
		m.deaf = true
		m.degrade("the pod has more than %d listeners: the others are not watched, and the hold is a sleep of %s; name the application's ports by --port",
			maxPorts, m.config.blindFor())
	}
	slices.SortFunc(m.ports, func(a, b *port) int { return a.listener.Addr.Compare(b.listener.Addr) })
}

// findNode notes a pod in the node's own network namespace. A port that is free there may be the next pod's.
func (m *Machine) findNode() {
	m.hostNetwork = slices.ContainsFunc(m.config.NodeIPs, func(a netip.Addr) bool { return m.ledger.own[a.Unmap()] })
	if m.hostNetwork {
		m.degrade("the pod is in the node's own network (hostNetwork): no port is taken over, and without --port the node's ports are taken for the application's")
	}
}

func (m *Machine) appPort(number uint16) bool {
	return slices.ContainsFunc(m.ports, func(p *port) bool { return p.listener.Addr.Port() == number })
}

// holdsPort tells whether lameduck listens on a port.
func (m *Machine) holdsPort(number uint16) bool {
	return slices.ContainsFunc(m.ports, func(p *port) bool { return p.state == portTaken && p.listener.Addr.Port() == number })
}

// listens tells whether the application has kept its listener on a port, by the present sample.
func (m *Machine) listens(number uint16) bool {
	return slices.ContainsFunc(m.ports, func(p *port) bool {
		return p.listener.Addr.Port() == number && p.state == portListening && p.seen && !p.dying
	})
}

// uncovered tells whether the kernel refuses on an application port: its listener is gone, and not taken over.
func (m *Machine) uncovered() bool {
	if m.phase == Serving {
		return len(m.deaths) > 0
	}
	if len(m.ports) == 0 {
		return m.ever
	}
	return slices.ContainsFunc(m.ports, func(p *port) bool { return p.state == portGone || p.dying })
}

// exposed tells whether a refused SYN is activity: a sample has shown a port to be gone. In the moment between a listener's
// death and the takeover peers ask as well, all at once when several pods end together, and their refusals are counted only.
func (m *Machine) exposed() bool {
	return len(m.ports) == 0 || slices.ContainsFunc(m.ports, func(p *port) bool { return p.state == portGone })
}

func (m *Machine) setPort(l takeover.Listener, state portState) {
	for _, p := range m.ports {
		if p.listener.Addr == l.Addr {
			p.state, p.stuck, p.dying, p.queuedSince = state, false, false, time.Time{}
		}
	}
}

// seeListener follows a listener's accept queue: nobody accepts where a child process holds a dead application's port.
func (m *Machine) seeListener(now time.Time, s *Seen) {
	found := false
	for _, p := range m.ports {
		if p.listener.Addr != s.Local {
			continue
		}
		p.seen, found = true, true
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
	if !found && !s.Ours && m.appListener(s.Local) && len(m.ports) < maxPorts {
		// The application has opened it since the trigger. What came on it before the next sample is not known.
		m.ever, m.opened = true, true
		m.addPort(takeover.Listener{Addr: s.Local, V6Only: s.V6Only}, portListening)
		m.lost(now)
		m.do(Sample{})
	}
}
