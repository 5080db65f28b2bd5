package takeover

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	probeEvery = time.Second
	leftOut    = time.Second // a peer that failed a connection is chosen again after that, and a probe
)

// health is what is known of a peer.
type health uint8

const (
	unknown health = iota
	answers
	silent
)

// peer is another endpoint of the Service. peers.mu guards it, but for addr.
type peer struct {
	addr    netip.AddrPort
	near    bool // chosen before others
	health  health
	open    int       // connections relayed to it, or being dialled
	out     time.Time // no answer counts before
	due     bool      // to be probed
	probing bool
	own     bool // said to be left out
	failed  int  // probes in a row
	said    health
	err     error // why it is silent
	rest    int   // rounds of probes left out before the next
}

// peers are those of all targets.
type peers struct {
	sys     *system
	log     *slog.Logger
	changed func() // called when a peer begins or ceases to answer
	timeout time.Duration
	kick    chan struct{}
	asking  chan struct{} // a place for each probe under way
	news    chan struct{} // of one place: there is something to say

	mu      sync.Mutex
	targets []*target
	byAddr  map[netip.AddrPort]*peer
}

func newPeers(opts Options, sys *system, log *slog.Logger, changed func()) *peers {
	ps := &peers{
		sys: sys, log: log, changed: changed, timeout: opts.DialTimeout,
		kick: make(chan struct{}, 1), news: make(chan struct{}, 1),
		asking: make(chan struct{}, mostProbes), byAddr: make(map[netip.AddrPort]*peer),
	}
	for _, t := range opts.Targets {
		ps.targets = append(ps.targets, newTarget(t))
	}
	return ps
}

// run resolves and probes each second until ctx is done.
func (ps *peers) run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	work.Go(func() { ps.herald(ctx) })
	ps.sayUnusable()
	ps.resolve(ctx, &work)
	ps.probeAll()
	for {
		select {
		case <-tick.C:
			ps.resolve(ctx, &work)
			ps.probeAll()
		case <-ps.kick:
			ps.probe(ctx, &work)
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

// probeAll makes every peer due for a probe at once. While none answers, most rounds are left out: where all pods of a
// Service end together, each would else take the refusals that the others' probes meet for traffic, and stay for it.
// A new pod is a new peer, and is asked at once.
func (ps *peers) probeAll() {
	ps.mu.Lock()
	for _, p := range ps.byAddr {
		if p.rest > 0 {
			p.rest--
			continue
		}
		p.due = true
	}
	ps.mu.Unlock()
	ps.rouse()
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
func (ps *peers) probe(ctx context.Context, work *sync.WaitGroup) {
	own := ps.own()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.byAddr {
		if !p.due || p.probing {
			continue
		}
		p.due = false
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

// own are the addresses that are never a peer's.
func (ps *peers) own() []netip.Addr {
	own, err := ps.sys.own()
	if err != nil {
		ps.log.Debug("own addresses cannot be read", "error", err) // the loop mark is the net beneath
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
	err := ps.sys.probe(dial, p.addr, func() { ps.first(p) })
	ps.mu.Lock()
	p.probing = false
	again := p.due
	ps.mu.Unlock()
	if ctx.Err() != nil || err != nil && ours(err) {
		return
	}
	ps.learn(p, err)
	if again {
		ps.rouse()
	}
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

// learn takes in what a probe says.
func (ps *peers) learn(p *peer, err error) {
	now := answers
	if err != nil {
		now = silent
	}
	ps.mu.Lock()
	if now == answers && time.Now().Before(p.out) {
		now = p.health
	}
	was := p.health
	p.health, p.err = now, err
	p.failed, p.rest = p.failed+1, 0
	switch {
	case err == nil:
		p.failed = 0
	case p.failed >= patient && !ps.anyAnswers():
		p.rest = rest
	}
	ps.mu.Unlock()
	ps.tell(was, now)
}

// anyAnswers tells whether any peer does; ps.mu is held.
func (ps *peers) anyAnswers() bool {
	for _, p := range ps.byAddr {
		if p.health == answers {
			return true
		}
	}
	return false
}

// fail leaves a peer out that did not accept a connection.
func (ps *peers) fail(p *peer, err error) {
	ps.mu.Lock()
	was := p.health
	p.health, p.out, p.err = silent, time.Now().Add(leftOut), err
	ps.mu.Unlock()
	ps.tell(was, silent)
}

func (ps *peers) tell(was, now health) {
	if was == now {
		return
	}
	select {
	case ps.news <- struct{}{}:
	default:
	}
	ps.changed()
}

// answering counts the peers that a port could be relayed to now.
func (ps *peers) answering(port uint16) (n int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.each(port, func(p *peer) {
		if p.health == answers {
			n++
		}
	})
	return n
}

// count tells of all targets' peers how many are known and how many answer.
func (ps *peers) count() (known, answer int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.byAddr {
		if p.health == answers {
			answer++
		}
	}
	return len(ps.byAddr), answer
}
