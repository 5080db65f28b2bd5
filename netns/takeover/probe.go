package takeover

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A Service can have a thousand endpoints, and a probe costs some 100 µs of a core here, and as much there.
const (
	probeEvery = time.Second
	aRound     = 64 // peers that are probed a round, where more are known
	forOthers  = 16 // of them for those that do not answer
	rounds     = 10 // within so many each peer is probed, however many they are
)

// run resolves and probes each second until ctx is done.
func (ps *peers) run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	work.Go(func() { ps.herald(ctx) })
	ps.sayUnusable()
	own := ps.own(nil)
	ps.resolve(ctx, &work)
	ps.probeAll()
	for {
		select {
		case <-tick.C:
			ps.sys.spare.fill()
			own = ps.own(own)
			ps.resolve(ctx, &work)
			ps.round()
		case <-ps.kick:
			ps.probe(ctx, &work, own)
		case <-ctx.Done():
			return
		}
	}
}

// Where no peer answers, one that has failed so many probes in a row is left out for so many rounds.
const (
	patient = 2
	rest    = 9
)

// probeAll makes every peer due for a probe at once, but those that are left out.
func (ps *peers) probeAll() {
	ps.mu.Lock()
	for _, p := range ps.byAddr {
		p.due = p.due || p.rest == 0
	}
	ps.mu.Unlock()
	ps.rouse()
}

// round makes the peers due whose turn it is. While none answers, most rounds are left out: where all pods of a Service
// end together, each would else take the refusals that the others' probes meet for traffic, and stay for it. A new pod is
// a new peer, and is asked at once.
func (ps *peers) round() {
	ps.mu.Lock()
	var answering, others []*peer
	for _, p := range ps.byAddr {
		switch {
		case p.rest > 0:
			p.rest--
		case p.health == answers:
			answering = append(answering, p)
		default:
			others = append(others, p)
		}
	}
	first, then := turns(len(answering), len(others))
	enlist(answering, first)
	enlist(others, then)
	ps.mu.Unlock()
	ps.rouse()
}

// turns shares a round between the peers that answer and the others.
func turns(answering, others int) (first, then int) {
	tenth := func(n int) int { return (n + rounds - 1) / rounds }
	first = max(aRound-min(others, forOthers), tenth(answering))
	then = max(aRound-answering, forOthers, tenth(others))
	return min(first, answering), min(then, others)
}

// enlist makes n peers due: those that were probed longest ago.
func enlist(all []*peer, n int) {
	if n < len(all) {
		slices.SortFunc(all, func(a, b *peer) int { return a.asked.Compare(b.asked) })
	}
	for _, p := range all[:n] {
		p.due = true
	}
}

// suspect has a peer probed at once: it has reset a connection without a word, as one does that is covering itself
// (or this pod, by way of a Service's address).
func (ps *peers) suspect(p *peer) {
	ps.mu.Lock()
	p.due = true
	ps.mu.Unlock()
	ps.rouse()
}

func (ps *peers) rouse() {
	select {
	case ps.kick <- struct{}{}:
	default:
	}
}

// probe begins a probe of each peer that is due, unless one of it is under way.
func (ps *peers) probe(ctx context.Context, work *sync.WaitGroup, own []netip.Addr) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.byAddr {
		if !p.due || p.probing {
			continue
		}
		p.due, p.asked = false, time.Now()
		if p.isOwn(own) {
			if !p.own {
				ps.log.Warn("peer left out: the address is this pod's own", "peer", p.addr)
			}
			p.own = true
			continue
		}
		p.probing = true
		work.Go(func() { ps.ask(ctx, p) })
	}
}

// own are the addresses that are never a peer's, or the last that were read.
func (ps *peers) own(last []netip.Addr) []netip.Addr {
	own, err := ps.sys.own()
	if err != nil {
		ps.log.Debug("own addresses cannot be read", "error", err) // the loop mark is the net beneath
		return last
	}
	return own
}

// isOwn tells whether a dial of the peer would meet this pod. Loopback is always one's own, whatever its interface names.
func (p *peer) isOwn(own []netip.Addr) bool {
	a := p.addr.Addr()
	return a.IsLoopback() || a.IsUnspecified() || slices.Contains(own, a.WithZone(""))
}

func (ps *peers) ask(ctx context.Context, p *peer) {
	select {
	case ps.asking <- struct{}{}:
		defer func() { <-ps.asking }()
	case <-ctx.Done():
		return
	}
	dial, cancel := context.WithTimeout(ctx, ps.timeout)
	defer cancel()
	ask := func() error { return ps.sys.probe(dial, p.addr, func() { ps.first(p) }) }
	err := ask()
	if noFiles(err) && ps.needsOne() {
		err = ps.sys.spare.lend(ask)
	}
	ps.mu.Lock()
	p.probing = false
	again := p.due
	ps.mu.Unlock()
	if again {
		defer ps.rouse()
	}
	if ctx.Err() == nil && (err == nil || !ours(err)) {
		ps.learn(p, err)
	}
}

// needsOne tells whether no peer answers.
func (ps *peers) needsOne() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return !ps.anyAnswers()
}

// first lets a peer of which nothing is known count as soon as it has accepted: the port may be free already.
func (ps *peers) first(p *peer) {
	ps.mu.Lock()
	news := p.health == unknown
	ps.mu.Unlock()
	if news {
		ps.learn(p, nil)
	}
}
