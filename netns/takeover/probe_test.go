package takeover

import (
	"net/netip"
	"testing"
	"time"
)

const crowdSize = 1000

func crowdTarget() Options { return Options{Targets: []Target{{Host: "svc:80"}}} }

// count tells how often the peers were probed from one moment to another, and the longest time without a probe of one.
func (n *network) count(addrs []netip.Addr, from, to time.Duration) (probes int, gap time.Duration) {
	for _, a := range addrs {
		last := from
		for _, at := range append(n.probed(a), to) {
			if at < from || at > to {
				continue
			}
			gap, last = max(gap, at-last), at
			probes++
		}
		probes--
	}
	return probes, gap
}

func TestManyPeersAreAllDialledAtTheTriggerAndFewAtOnce(t *testing.T) {
	withPeers(t, crowdTarget(), func(t *testing.T, n *network, ps *peers, _ *lines) {
		addrs := crowdOf(crowdSize)
		n.set(func(n *network) {
			n.names["svc"], n.delay = addrs, 20*time.Millisecond
			for _, a := range addrs {
				n.up[a] = true
			}
		})
		passTime(900 * time.Millisecond)
		if ps.answering(8080) != crowdSize {
			t.Errorf("%d peers answer", ps.answering(8080))
		}
		if n.most > mostProbes {
			t.Errorf("%d probes at once", n.most)
		}
	})
}

func TestManyPeersAreProbedInTurns(t *testing.T) {
	withPeers(t, crowdTarget(), func(t *testing.T, n *network, ps *peers, _ *lines) {
		addrs := crowdOf(crowdSize)
		n.set(func(n *network) {
			n.names["svc"] = addrs
			for _, a := range addrs {
				n.up[a] = true
			}
		})
		const from, to = time.Second, 41 * time.Second
		passTime(to)
		probes, gap := n.count(addrs, from, to)
		if most := int((to-from)/probeEvery+1) * crowdSize / rounds; probes > most {
			t.Errorf("%d probes, not %d", probes, most)
		}
		if gap > rounds*probeEvery {
			t.Errorf("%s without a probe of one", gap)
		}
		n.set(func(n *network) { n.up[addrs[500]] = false })
		passTime(rounds*probeEvery + settle)
		if ps.answering(8080) != crowdSize-1 {
			t.Error("a dead peer is not left out")
		}
	})
}

func TestPeersThatAnswerAreProbedBeforeTheOthers(t *testing.T) {
	withPeers(t, crowdTarget(), func(t *testing.T, n *network, _ *peers, _ *lines) {
		addrs := crowdOf(crowdSize)
		good := addrs[:40]
		n.set(func(n *network) {
			n.names["svc"] = addrs
			for _, a := range good {
				n.up[a] = true
			}
		})
		const from, to = time.Second, 41 * time.Second
		passTime(to)
		if _, gap := n.count(good, from, to); gap > probeEvery {
			t.Errorf("%s without a probe of a peer that answers", gap)
		}
		probes, gap := n.count(addrs[40:], from, to)
		if most := int((to-from)/probeEvery+1) * crowdSize / rounds; probes > most || gap > rounds*probeEvery {
			t.Errorf("%d probes of the others, %s without", probes, gap)
		}
	})
}

func TestARoundIsSharedBetweenThoseThatAnswerAndTheOthers(t *testing.T) {
	for _, c := range []struct{ answering, others, first, then int }{
		{0, 0, 0, 0},
		{64, 0, 64, 0},
		{0, 64, 0, 64},
		{3, 61, 3, 61},
		{40, 40, 40, 24},
		{100, 100, 48, 16},
		{1000, 0, 100, 0},
		{999, 1, 100, 1},
		{10, 990, 10, 99},
		{0, 1000, 0, 100},
	} {
		if first, then := turns(c.answering, c.others); first != c.first || then != c.then {
			t.Errorf("of %d that answer and %d others: %d and %d, not %d and %d", c.answering, c.others, first, then, c.first, c.then)
		}
	}
}
