package takeover

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// lookupTimeout bounds one resolution. Until the next succeeds, the last addresses stay.
const lookupTimeout = 2 * time.Second

// target is a configured target and the peers that it stands for now. peers.mu guards what changes.
type target struct {
	Target
	host string // a name; empty: an address, or unusable
	port uint16
	err  error // Host cannot be used

	peers     []member
	former    []member  // those that it meant before and that answer, while none of peers does
	until     time.Time // former ends
	resolving bool
	failing   bool
}

// member is a peer of a target, and the application port that it stands in for there; 0: every one of the target's.
type member struct {
	*peer
	port uint16
}

func newTarget(t Target) *target {
	if t.Given {
		return &target{Target: t}
	}
	host, service, err := net.SplitHostPort(t.Host)
	if err != nil {
		return &target{Target: t, err: err}
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return &target{Target: t, err: fmt.Errorf("%q is no port", service)}
	}
	return &target{Target: t, host: host, port: uint16(port)}
}

// sayUnusable tells of targets that are no host:port.
func (ps *peers) sayUnusable() {
	for _, t := range ps.targets {
		if t.err != nil {
			ps.log.Error("relay target is not host:port", "target", t.Host, "error", t.err)
		}
	}
}

// targeted tells whether any target is meant for the port.
func (ps *peers) targeted(port uint16) bool {
	return slices.ContainsFunc(ps.targets, func(t *target) bool { return t.err == nil && (t.Port == port || t.Port == 0) })
}

// of are the peers of the port: those of the targets that name it, or else those of the targets for every port. One can
// come twice. ps.mu is held.
func (ps *peers) of(port uint16) iter.Seq[*peer] {
	named := slices.ContainsFunc(ps.targets, func(t *target) bool { return t.Port == port })
	return func(yield func(*peer) bool) {
		for _, t := range ps.targets {
			if named && t.Port != port || !named && t.Port != 0 {
				continue
			}
			for _, members := range [...][]member{t.peers, t.former} {
				for _, m := range members {
					if (m.port == 0 || m.port == port) && !yield(m.peer) {
						return
					}
				}
			}
		}
	}
}

// resolve begins to resolve each target, unless that is under way.
func (ps *peers) resolve(ctx context.Context, work *sync.WaitGroup) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, t := range ps.targets {
		if len(t.former) > 0 && time.Now().After(t.until) {
			ps.dismiss(t)
			ps.changed()
		}
		if t.err != nil || t.resolving || t.Given {
			continue
		}
		if addr, err := netip.ParseAddr(t.host); err == nil {
			if t.peers == nil {
				ps.replace(t, t.all([]netip.Addr{addr}))
			}
			continue
		}
		t.resolving = true
		work.Go(func() { ps.look(ctx, t) })
	}
}

func (ps *peers) look(ctx context.Context, t *target) {
	bounded, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addrs, err := ps.sys.lookup(bounded, t.host)
	if err == nil && len(addrs) == 0 {
		err = fmt.Errorf("no address")
	}
	ps.mu.Lock()
	t.resolving = false
	was := t.failing
	t.failing = err != nil
	var changed bool
	if err == nil {
		changed = ps.replace(t, t.all(addrs))
	}
	kept := len(t.peers)
	ps.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil && !was:
		ps.log.Warn("relay target does not resolve", "target", t.Host, "error", err, "peers_kept", kept)
	case err == nil && (changed || was):
		ps.log.Info("relay target resolves", "target", t.Host, "addresses", len(addrs), "first", addrs[:min(len(addrs), namedOnce)])
	}
	if changed {
		ps.rouse()
		ps.changed()
	}
}

// all are the peers at these addresses.
func (t *target) all(addrs []netip.Addr) []Peer {
	var all []Peer
	for _, a := range addrs {
		all = append(all, Peer{Addr: netip.AddrPortFrom(a, t.port)})
	}
	return all
}

// set gives a target its peers, in place of those that it had.
func (ps *peers) set(index int, now []Peer) {
	ps.mu.Lock()
	t := ps.targets[index]
	changed := ps.replace(t, now)
	ps.mu.Unlock()
	if changed {
		ps.log.Info("relay target has peers", "target", t.Host, "peers", len(now))
		ps.rouse()
		ps.changed()
	}
}

// replace gives the target its peers, due for a probe where they are new, and forgets those of no target; ps.mu is held.
func (ps *peers) replace(t *target, all []Peer) (changed bool) {
	fresh := make(map[member]bool, len(all))
	now := make([]member, 0, len(all))
	for _, one := range all {
		addr := netip.AddrPortFrom(one.Addr.Addr().Unmap(), one.Addr.Port())
		p := ps.byAddr[addr]
		if p == nil {
			p = &peer{addr: addr, due: true}
			ps.byAddr[addr] = p
		}
		p.near = one.Near
		m := member{p, one.Port}
		if !fresh[m] {
			fresh[m] = true
			now = append(now, m)
		}
	}
	before := len(t.peers)
	gone := slices.DeleteFunc(t.peers, func(m member) bool { return fresh[m] })
	changed = len(gone) > 0 || len(now) != before
	t.peers = now
	ps.keep(t, gone)
	ps.forget(gone)
	return changed
}
