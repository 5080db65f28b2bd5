package kube

import (
	"cmp"
	"hash/fnv"
	"net/netip"
	"slices"

	"lameduck/netns/takeover"
)

const (
	// maxPeers bounds the peers of an application port: each is dialled every second. Of these maxNear are of the own zone,
	// if there are others: the zone may be what fails.
	maxPeers = 16
	maxNear  = 12
)

// Pod is this pod, as the downward API tells it; what is empty is not known.
type Pod struct{ Name, Namespace, UID string }

// self tells this pod's endpoints from others'.
type self struct {
	Pod
	addresses []netip.Addr
}

func (me self) is(e *endpoint) bool {
	if ref := e.TargetRef; ref.Kind == "Pod" {
		switch {
		case me.UID != "" && ref.UID != "":
			return me.UID == ref.UID
		case me.Name != "" && ref.Name != "":
			return me.Name == ref.Name
		}
	}
	return slices.ContainsFunc(e.addresses(), func(a netip.Addr) bool { return slices.Contains(me.addresses, a) })
}

// membership is how a Service lists this pod.
type membership struct {
	listed bool
	// addressed: clients may address this pod by a name of its own, as they do a StatefulSet's member.
	addressed bool
	zone      string
	ports     map[string][]uint16 // the pod's port numbers by the Service's port names
}

// membershipOf looks for this pod in the slices of a Service.
func membershipOf(all map[string]*endpointSlice, me self) membership {
	m := membership{ports: map[string][]uint16{}}
	for _, s := range all {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if !me.is(e) {
				continue
			}
			m.listed, m.zone = true, e.Zone
			m.addressed = m.addressed || s.headless() && e.Hostname != ""
			for _, p := range s.Ports {
				if p.tcp() && !slices.Contains(m.ports[p.Name], p.Port) {
					m.ports[p.Name] = append(m.ports[p.Name], p.Port)
				}
			}
		}
	}
	return m
}

// peersOf gives who among a Service's endpoints can stand in for this pod: those that serve, on the port of the same name.
// only is the application port that they shall stand in for, 0 for every one.
func peersOf(all map[string]*endpointSlice, me self, m membership, only uint16) []takeover.Peer {
	var peers []takeover.Peer
	for _, s := range all {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if !e.serves() || me.is(e) {
				continue
			}
			addresses := e.addresses()
			if len(addresses) == 0 {
				continue
			}
			for _, p := range s.Ports {
				for _, port := range m.standsIn(s, p, only) {
					// The first: further ones are the same endpoint's (discovery.k8s.io/v1).
					peers = append(peers, takeover.Peer{Port: port, Addr: netip.AddrPortFrom(addresses[0], p.Port), Near: m.near(e)})
				}
			}
		}
	}
	return peers
}

// standsIn gives the application ports that a port of another endpoint stands in for. Where this pod is no member of the
// Service that is named, the same number counts, or the only one.
func (m membership) standsIn(s *endpointSlice, p slicePort, only uint16) []uint16 {
	var ports []uint16
	switch {
	case !p.tcp():
	case m.listed:
		ports = m.ports[p.Name]
	case len(s.Ports) == 1:
		return []uint16{only}
	default:
		ports = []uint16{p.Port}
	}
	if only == 0 {
		return ports
	}
	if slices.Contains(ports, only) {
		return []uint16{only}
	}
	return nil
}

// near tells whether an endpoint is meant for the own zone, or lies in it.
func (m membership) near(e *endpoint) bool {
	if m.zone == "" {
		return false
	}
	if len(e.Hints.ForZones) == 0 {
		return e.Zone == m.zone
	}
	for _, z := range e.Hints.ForZones {
		if z.Name == m.zone {
			return true
		}
	}
	return false
}

// choose keeps maxPeers of each application port. Each pod chooses its own ones, and the same again after a change that
// does not concern them.
func choose(peers []takeover.Peer, me self) []takeover.Peer {
	peers = slices.Clone(peers)
	rank := func(p takeover.Peer) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(me.UID + me.Name + p.Addr.String()))
		return h.Sum64()
	}
	slices.SortFunc(peers, func(a, b takeover.Peer) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), boolInt(b.Near)-boolInt(a.Near), cmp.Compare(rank(a), rank(b)), a.Addr.Compare(b.Addr))
	})
	peers = slices.Compact(peers)
	var chosen []takeover.Peer
	for len(peers) > 0 {
		end := slices.IndexFunc(peers, func(p takeover.Peer) bool { return p.Port != peers[0].Port })
		if end < 0 {
			end = len(peers)
		}
		near := slices.IndexFunc(peers[:end], func(p takeover.Peer) bool { return !p.Near })
		if near < 0 {
			near = end
		}
		far := min(end-near, max(maxPeers-near, maxPeers-maxNear))
		chosen = append(chosen, peers[:min(near, maxPeers-far)]...)
		chosen = append(chosen, peers[near:near+far]...)
		peers = peers[end:]
	}
	return chosen
}
