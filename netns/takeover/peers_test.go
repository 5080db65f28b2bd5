package takeover

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

var errRefused = errors.New("refused")

// network is a made-up one: who answers, what names resolve to, and what was asked of it.
type network struct {
	mu     sync.Mutex
	up     map[netip.Addr]bool
	names  map[string][]netip.Addr
	slow   bool          // the resolver never answers
	delay  time.Duration // until a peer accepts, or does not
	now    int           // probes under way
	most   int           // at once
	probes map[netip.Addr][]time.Duration
	start  time.Time
}

func (n *network) set(change func(*network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

func (n *network) probe(_ context.Context, peer netip.AddrPort, connected func()) error {
	n.mu.Lock()
	n.probes[peer.Addr()] = append(n.probes[peer.Addr()], time.Since(n.start))
	up, delay := n.up[peer.Addr()], n.delay
	n.now++
	n.most = max(n.most, n.now)
	n.mu.Unlock()
	defer n.set(func(n *network) { n.now-- })
	time.Sleep(delay)
	if !up {
		return errRefused
	}
	connected()
	time.Sleep(settle)
	return nil
}

func (n *network) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	slow, addrs := n.slow, n.names[host]
	n.mu.Unlock()
	if slow {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if addrs == nil {
		return nil, errors.New("no such host")
	}
	return slices.Clone(addrs), nil
}

func (n *network) probed(a netip.Addr) []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.probes[a])
}

// withPeers runs body with peers that watch a made-up network by a made-up clock.
func withPeers(t *testing.T, opts Options, body func(*testing.T, *network, *peers, *lines)) {
	synctest.Test(t, func(t *testing.T) {
		made := &network{
			up: map[netip.Addr]bool{}, names: map[string][]netip.Addr{},
			probes: map[netip.Addr][]time.Duration{},
		}
		log := &lines{changed: make(chan struct{}, 1)}
		sys := system{
			probe: made.probe, lookup: made.lookup,
			spare: new(spare),
			own:   func() ([]netip.Addr, error) { return []netip.Addr{podIP}, nil },
		}
		opts.DialTimeout = 500 * time.Millisecond
		ps := newPeers(opts, &sys, slog.New(slog.NewTextHandler(log, nil)), func() {})
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() {
			time.Sleep(time.Nanosecond) // until body has set its network up and lets time pass
			made.set(func(n *network) { n.start = time.Now() })
			ps.run(ctx)
		})
		defer work.Wait()
		defer cancel()
		body(t, made, ps, log)
	})
}

// answering counts the peers that a port could be relayed to now.
func (ps *peers) answering(port uint16) (n int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for p := range ps.of(port) {
		if p.health == answers {
			n++
		}
	}
	return n
}

// pass lets the made-up clock go on, and everything settle.
func passTime(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestEveryPeerIsDialledAtOnceAndEachSecond(t *testing.T) {
	opts := Options{Targets: []Target{{Host: at(peerIP, 80).String()}, {Host: at(otherIP, 80).String()}}}
	withPeers(t, opts, func(t *testing.T, n *network, ps *peers, log *lines) {
		n.set(func(n *network) { n.up[peerIP] = true })
		passTime(3500 * time.Millisecond)
		want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}
		for _, a := range []netip.Addr{peerIP, otherIP} {
			if got := n.probed(a); !slices.Equal(got, want) {
				t.Errorf("%s was dialled at %v", a, got)
			}
		}
		if known, answer := ps.count(); known != 2 || answer != 1 {
			t.Errorf("%d known, %d answer", known, answer)
		}
		if log.count("peer answers") != 1 || log.count("peer does not answer") != 1 {
			t.Errorf("not one line a change:\n%s", log)
		}
		n.set(func(n *network) { n.up[peerIP], n.up[otherIP] = false, true })
		passTime(time.Second)
		if p := ps.pick(8080, nil); p == nil || p.addr.Addr() != otherIP {
			t.Errorf("picked %v", p)
		}
	})
}

func TestPeersThatAllAreSilentAreAskedSeldom(t *testing.T) {
	withPeers(t, Options{Targets: []Target{{Host: at(peerIP, 80).String()}}}, func(t *testing.T, n *network, ps *peers, _ *lines) {
		passTime(20 * time.Second)
		want := []time.Duration{0, time.Second, 11 * time.Second}
		if got := n.probed(peerIP); !slices.Equal(got, want) {
			t.Errorf("dialled at %v", got)
		}
		n.set(func(n *network) { n.up[peerIP] = true })
		passTime(2 * time.Second)
		if ps.answering(8080) != 1 {
			t.Error("the peer answers again, and does not count")
		}
	})
}

// crowdOf are many addresses.
func crowdOf(n int) (addrs []netip.Addr) {
	for i := range n {
		addrs = append(addrs, netip.AddrFrom4([4]byte{10, 77, byte(i >> 8), byte(i)}))
	}
	return addrs
}

func TestManyPeersAreSaidInALineARound(t *testing.T) {
	withPeers(t, Options{Targets: []Target{{Host: "svc:80"}}}, func(t *testing.T, n *network, _ *peers, log *lines) {
		addrs := crowdOf(aRound) // more change in turns
		n.set(func(n *network) { n.names["svc"] = addrs })
		for round := range 10 { // all of them change in each
			n.set(func(n *network) {
				for _, a := range addrs {
					n.up[a] = round%2 == 0
				}
			})
			passTime(1500 * time.Millisecond)
		}
		if got := len(log.String()); got > 10*1000 {
			t.Errorf("%d bytes are said", got)
		}
		if got := log.count("\n"); got > 25 {
			t.Errorf("%d lines are said", got)
		}
		for _, want := range []string{"peers answer\" peers=64 of=64 first=", "peers do not answer\" peers=64 of=64 first=", "one_error=refused"} {
			if log.count(want) == 0 {
				t.Errorf("not said: %s\n%s", want, log)
			}
		}
	})
}

func TestProbesAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all int
		var mu sync.Mutex
		sys := system{
			spare: new(spare),
			own:   func() ([]netip.Addr, error) { return nil, nil },
			probe: func(context.Context, netip.AddrPort, func()) error {
				mu.Lock()
				now, all = now+1, all+1
				most = max(most, now)
				mu.Unlock()
				time.Sleep(settle)
				mu.Lock()
				now--
				mu.Unlock()
				return nil
			},
		}
		var opts Options
		for i := range 100 {
			opts.Targets = append(opts.Targets, Target{Host: at(netip.AddrFrom4([4]byte{10, 77, 0, byte(i)}), 80).String()})
		}
		ps := newPeers(opts, &sys, slog.New(slog.DiscardHandler), func() {})
		ps.asking = make(chan struct{}, 10)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { ps.run(ctx) })
		passTime(10*settle + settle/2)
		cancel()
		work.Wait()
		if most != 10 || all != 100 {
			t.Errorf("%d probes at once, %d in all", most, all)
		}
	})
}

func TestFirstAnswerCountsBeforeItHasSettled(t *testing.T) {
	withPeers(t, Options{Targets: []Target{{Host: at(peerIP, 80).String()}}}, func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.set(func(n *network) { n.up[peerIP] = true })
		passTime(settle / 2)
		if ps.answering(8080) != 1 {
			t.Error("a new peer that has accepted does not count")
		}
	})
}

func TestOwnAddressesAreNeverPeers(t *testing.T) {
	addrs := []netip.Addr{
		podIP, netip.AddrFrom16(podIP.As16()),
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.1.2.3"), netip.MustParseAddr("::1"),
		netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("::"),
	}
	opts := Options{Targets: []Target{{Host: "svc:80"}}}
	withPeers(t, opts, func(t *testing.T, n *network, ps *peers, log *lines) {
		n.set(func(n *network) {
			n.names["svc"] = append(addrs, peerIP)
			n.up[peerIP] = true
			for _, a := range addrs {
				n.up[a] = true
			}
		})
		passTime(3 * time.Second)
		for _, a := range addrs {
			if n.probed(a.Unmap()) != nil {
				t.Errorf("own address %s was dialled", a)
			}
		}
		if _, answer := ps.count(); answer != 1 {
			t.Errorf("%d peers answer", answer)
		}
		if got := log.count("the address is this pod's own"); got != len(addrs)-1 { // one is podIP again, mapped
			t.Errorf("said %d times:\n%s", got, log)
		}
	})
}

func TestFailingResolverKeepsTheLastAddresses(t *testing.T) {
	withPeers(t, Options{Targets: []Target{{Host: "svc:80"}}}, func(t *testing.T, n *network, ps *peers, log *lines) {
		n.set(func(n *network) { n.names["svc"], n.up[peerIP] = []netip.Addr{peerIP}, true })
		passTime(100 * time.Millisecond)
		if ps.answering(8080) != 1 {
			t.Fatal("the name's peer does not answer")
		}
		n.set(func(n *network) { n.names["svc"] = nil })
		passTime(5 * time.Second)
		if ps.answering(8080) != 1 {
			t.Error("the peer is forgotten")
		}
		if log.count("does not resolve") != 1 {
			t.Errorf("not one line a change:\n%s", log)
		}
		n.set(func(n *network) { n.names["svc"], n.up[otherIP] = []netip.Addr{otherIP}, true })
		passTime(time.Second + settle)
		if p := ps.pick(8080, nil); p == nil || p.addr.Addr() != otherIP {
			t.Errorf("picked %v, which the name no longer means", p)
		}
		if known, _ := ps.count(); known != 1 {
			t.Errorf("%d peers are known", known)
		}
	})
}

func TestSlowResolverDoesNotKeepPeersFromProbes(t *testing.T) {
	withPeers(t, Options{Targets: []Target{{Host: "svc:80"}, {Host: at(otherIP, 80).String()}}},
		func(t *testing.T, n *network, _ *peers, log *lines) {
			n.set(func(n *network) { n.slow, n.up[otherIP] = true, true })
			passTime(10*time.Second + settle)
			if got := len(n.probed(otherIP)); got != 11 {
				t.Errorf("%d probes in 10 s", got)
			}
			if log.count("does not resolve") != 1 {
				t.Errorf("log:\n%s", log)
			}
		})
}

func TestFailingPeerIsLeftOutForASecond(t *testing.T) {
	withPeers(t, Options{Targets: []Target{{Host: at(peerIP, 80).String()}}}, func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.set(func(n *network) { n.up[peerIP] = true })
		passTime(900 * time.Millisecond)
		p := ps.pick(8080, nil)
		ps.done(p)
		ps.fail(p, errRefused)
		if ps.pick(8080, nil) != nil {
			t.Error("a failing peer is picked")
		}
		passTime(500 * time.Millisecond) // a probe has succeeded at 1 s
		if ps.pick(8080, nil) != nil {
			t.Error("a failing peer is picked within the second")
		}
		passTime(time.Second)
		if ps.pick(8080, nil) == nil {
			t.Error("a peer that answers again is not picked")
		}
	})
}

func TestDialThatFailsForOurOwnWantSaysNothingOfThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		sys := system{
			spare: new(spare),
			own:   func() ([]netip.Addr, error) { return nil, nil },
			probe: func(context.Context, netip.AddrPort, func()) error {
				if full.Load() {
					return &net.OpError{Op: "dial", Err: unix.EMFILE}
				}
				return nil
			},
		}
		ps := newPeers(Options{Targets: []Target{{Host: at(peerIP, 80).String()}}}, &sys, slog.New(slog.DiscardHandler), func() {})
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { ps.run(ctx) })
		defer work.Wait()
		defer cancel()
		passTime(10 * time.Millisecond)
		full.Store(true)
		passTime(3 * time.Second)
		if ps.answering(8080) != 1 {
			t.Error("the peer is held to be silent")
		}
	})
}

func TestLessBusyOfTwoPeersIsPicked(t *testing.T) {
	opts := Options{Targets: []Target{{Host: at(peerIP, 80).String()}, {Host: at(otherIP, 80).String()}}}
	withPeers(t, opts, func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.set(func(n *network) { n.up[peerIP], n.up[otherIP] = true, true })
		passTime(100 * time.Millisecond)
		count := map[netip.Addr]int{}
		for range 100 {
			count[ps.pick(8080, nil).addr.Addr()]++
		}
		if count[peerIP] != 50 || count[otherIP] != 50 {
			t.Errorf("picked %v", count)
		}
		first := ps.pick(8080, nil)
		if second := ps.pick(8080, []*peer{first}); second == nil || second == first {
			t.Error("the peer that was tried is picked again")
		}
	})
}

func TestTargetOfThePortComesBeforeTheOneForEveryPort(t *testing.T) {
	opts := Options{Targets: []Target{{Host: at(peerIP, 80).String()}, {Port: 9000, Host: at(otherIP, 90).String()}}}
	withPeers(t, opts, func(t *testing.T, n *network, ps *peers, _ *lines) {
		n.set(func(n *network) { n.up[peerIP], n.up[otherIP] = true, true })
		passTime(100 * time.Millisecond)
		if p := ps.pick(9000, nil); p.addr != at(otherIP, 90) {
			t.Errorf("9000 goes to %s", p.addr)
		}
		if p := ps.pick(8080, nil); p.addr != at(peerIP, 80) {
			t.Errorf("8080 goes to %s", p.addr)
		}
		if ps.pick(9000, []*peer{ps.byAddr[at(otherIP, 90)]}) != nil {
			t.Error("9000 falls back to the target for every port")
		}
	})
}

func TestOnlyPortsWithATargetAreTargeted(t *testing.T) {
	taker := New(Options{Targets: []Target{{Port: 9000, Host: "svc:80"}, {Port: 9001, Host: "no port"}, {Port: 9002, Host: "svc:0"}}})
	for port, want := range map[uint16]bool{9000: true, 9001: false, 9002: false, 8080: false} {
		if taker.Targeted(port) != want {
			t.Errorf("port %d: not %t", port, want)
		}
	}
}
