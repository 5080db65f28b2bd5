package takeover

import (
	"net/netip"
	"testing"
	"time"
)

// means has the name mean these addresses, all of them up.
func (n *network) means(addrs ...netip.Addr) {
	n.set(func(n *network) {
		n.names["svc"] = addrs
		for _, a := range addrs {
			n.up[a] = true
		}
	})
}

func TestPortIsBackedWhileItsNameChangesAsAWhole(t *testing.T) {
	withPeers(t, crowdTarget(), func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.set(func(n *network) { n.delay = 200 * time.Millisecond })
		n.means(peerIP)
		passTime(500 * time.Millisecond)
		n.means(otherIP)
		passTime(600 * time.Millisecond) // the new one is being probed
		if p := ps.pick(8080, nil); p == nil || p.addr.Addr() != peerIP {
			t.Errorf("picked %v before the new peer has answered", p)
		}
		passTime(200 * time.Millisecond)
		if p := ps.pick(8080, nil); p == nil || p.addr.Addr() != otherIP {
			t.Errorf("picked %v after the new peer has answered", p)
		}
		if known, _ := ps.count(); known != 1 {
			t.Errorf("%d peers are known", known)
		}
	})
}

func TestPortIsBackedWhileItsNameRotates(t *testing.T) {
	withPeers(t, crowdTarget(), func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.set(func(n *network) { n.delay = 200 * time.Millisecond })
		addrs := crowdOf(20)
		n.means(addrs[0])
		passTime(500 * time.Millisecond)
		for i := range 200 {
			n.means(addrs[i/10%len(addrs)])
			if passTime(100 * time.Millisecond); !ps.backs(8080) {
				t.Fatalf("no peer after %d00 ms", i)
			}
		}
		if known, _ := ps.count(); known > 2 {
			t.Errorf("%d peers are known", known)
		}
	})
}

func TestFormerPeersStandInForABoundedTime(t *testing.T) {
	withPeers(t, crowdTarget(), func(t *testing.T, n *network, ps *peers, _ *lines) {
		addrs := crowdOf(20)
		n.means(peerIP)
		passTime(500 * time.Millisecond)
		for i := range 12 { // none of these ever answers
			n.set(func(n *network) { n.names["svc"] = addrs[i : i+1] })
			passTime(time.Second)
			if got, want := ps.backs(8080), i <= int(keptFor/time.Second); got != want {
				t.Errorf("after %d s: %t", i, got)
			}
		}
		if known, _ := ps.count(); known != 1 {
			t.Errorf("%d peers are known", known)
		}
	})
}

func TestFormerPeerThatDiesIsLeftOut(t *testing.T) {
	withPeers(t, crowdTarget(), func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.means(peerIP)
		passTime(500 * time.Millisecond)
		n.set(func(n *network) { n.names["svc"] = []netip.Addr{otherIP} })
		passTime(time.Second)
		if !ps.backs(8080) {
			t.Fatal("the former peer does not stand in")
		}
		n.set(func(n *network) { n.up[peerIP] = false })
		passTime(time.Second)
		if ps.backs(8080) {
			t.Error("a dead former peer stands in")
		}
	})
}

// C16: those that were given and have left are ending themselves.
func TestGivenPeersThatHaveLeftNeverStandIn(t *testing.T) {
	withPeers(t, given(), func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.set(func(n *network) { n.up[peerIP] = true })
		passTime(time.Millisecond)
		ps.set(0, []Peer{{Addr: at(peerIP, 80)}})
		passTime(settle)
		ps.set(0, []Peer{{Addr: at(otherIP, 80)}})
		if ps.backs(8080) {
			t.Error("a peer that has left stands in")
		}
	})
}
