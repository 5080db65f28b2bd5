package takeover

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

var farIP = netip.MustParseAddr("10.9.9.9")

func given() Options { return Options{Targets: []Target{{Host: "service/app", Given: true}}} }

func TestGivenPeersAreProbedAtOnceAndForgottenWhenTheyLeave(t *testing.T) {
	withPeers(t, given(), func(t *testing.T, n *network, ps *peers, log *lines) {
		n.set(func(n *network) { n.up[peerIP], n.up[otherIP] = true, true })
		if !ps.targeted(8080) {
			t.Error("no port is targeted before the peers are known")
		}
		passTime(1500 * time.Millisecond)
		ps.set(0, []Peer{{Addr: at(peerIP, 80)}})
		passTime(settle)
		if ps.answering(8080) != 1 {
			t.Error("a given peer is not probed at once")
		}
		ps.set(0, []Peer{{Addr: at(otherIP, 80)}})
		passTime(settle)
		if p := ps.pick(8080, nil); p == nil || p.addr.Addr() != otherIP {
			t.Errorf("picked %v", p)
		}
		probes := len(n.probed(peerIP))
		passTime(3 * time.Second)
		if len(n.probed(peerIP)) != probes {
			t.Error("a peer that has left is still probed")
		}
		ps.set(0, nil)
		if known, _ := ps.count(); known != 0 || ps.pick(8080, nil) != nil {
			t.Errorf("%d peers are known", known)
		}
		if log.count("relay target has peers") != 3 {
			t.Errorf("not one line a change:\n%s", log)
		}
	})
}

func TestGivenPeerStandsInForItsPortOnly(t *testing.T) {
	withPeers(t, given(), func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.set(func(n *network) { n.up[peerIP], n.up[otherIP] = true, true })
		passTime(time.Millisecond)
		ps.set(0, []Peer{
			{Port: 8080, Addr: at(peerIP, 18080)}, {Port: 9000, Addr: at(peerIP, 19000)},
			{Port: 9001, Addr: at(peerIP, 19000)}, {Port: 9000, Addr: at(otherIP, 19000)},
		})
		passTime(settle)
		for port, want := range map[uint16]int{8080: 1, 9000: 2, 9001: 1, 9090: 0} {
			if got := ps.answering(port); got != want {
				t.Errorf("%d peers answer for port %d, want %d", got, port, want)
			}
		}
		if p := ps.pick(8080, nil); p.addr != at(peerIP, 18080) {
			t.Errorf("8080 goes to %s", p.addr)
		}
	})
}

func TestNearPeersAreChosenWhileOneAnswers(t *testing.T) {
	withPeers(t, given(), func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.set(func(n *network) { n.up[peerIP], n.up[otherIP], n.up[farIP] = true, true, true })
		passTime(time.Millisecond)
		ps.set(0, []Peer{{Addr: at(farIP, 80)}, {Addr: at(peerIP, 80), Near: true}, {Addr: at(otherIP, 80), Near: true}})
		passTime(settle)
		var seen []netip.Addr
		for range 100 {
			if a := ps.pick(8080, nil).addr.Addr(); !slices.Contains(seen, a) {
				seen = append(seen, a)
			}
		}
		if len(seen) != 2 || slices.Contains(seen, farIP) {
			t.Errorf("picked %v", seen)
		}
		near := []*peer{ps.byAddr[at(peerIP, 80)], ps.byAddr[at(otherIP, 80)]}
		if p := ps.pick(8080, near); p == nil || p.addr.Addr() != farIP {
			t.Errorf("with no near one left, picked %v", p)
		}
	})
}

func TestPeersOfOtherTargetsStayWhenGivenOnesChange(t *testing.T) {
	opts := Options{Targets: []Target{{Host: "svc:80"}, {Host: "auto", Given: true}}}
	withPeers(t, opts, func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.set(func(n *network) { n.up[peerIP], n.names["svc"] = true, []netip.Addr{peerIP} })
		passTime(settle)
		ps.set(1, []Peer{{Addr: at(peerIP, 80)}})
		ps.set(1, nil)
		if ps.answering(8080) != 1 {
			t.Error("the peer of the other target is forgotten")
		}
	})
}
