package takeover

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

const leftOut = time.Second // a peer that failed a connection is chosen again after that, and a probe

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
	asked   time.Time // when it was probed last
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
	if now == answers && was != answers {
		ps.settle(p)
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

// backs tells whether a port could be relayed to a peer now.
func (ps *peers) backs(port uint16) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for p := range ps.of(port) {
		if p.health == answers {
			return true
		}
	}
	return false
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
