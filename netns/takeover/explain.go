package takeover

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long after a listener's death a port may be busy before that is worth a line.
const patience = time.Second

// overdue tells, once for each kick, that the port is still in use long after it. kick is in nanoseconds of Unix time.
func (p *port) overdue(err error, kick int64) bool {
	if !errors.Is(err, unix.EADDRINUSE) || kick == p.explained || time.Since(time.Unix(0, kick)) < patience {
		return false
	}
	p.explained = kick
	return true
}

// explain says, once, why a port stays in use after a listener's death, unless the application listens there yet.
func (t *Takeover) explain(p *port) {
	address := p.listener.Addr
	all, err := t.sys.listeners(address.Port())
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.state != free || p.said {
		return
	}
	var own []netip.AddrPort
	for _, other := range t.ports {
		if other.state != free && overlap(other.listener.Addr, address) {
			own = append(own, other.listener.Addr)
		}
	}
	if slices.ContainsFunc(all, func(a netip.AddrPort) bool { return overlap(a, address) && !slices.Contains(own, a) }) {
		return
	}
	p.said = true
	if len(own) > 0 {
		t.log.Warn("port is in use though the application does not listen: where it was listened on apart, by IPv4 and IPv6, "+
			"lameduck's own listener can be in the way; what that does not cover the kernel refuses",
			"address", address, "v6_only", p.listener.V6Only, "own", own)
		return
	}
	t.log.Warn("port is in use though nobody listens: the application's last connections keep it, since it did not set "+
		"SO_REUSEADDR; the kernel refuses until they end", "address", address)
}

// overlap tells whether a listener at one of the addresses can be in the way of one at the other.
func overlap(a, b netip.AddrPort) bool {
	return a.Port() == b.Port() && (a.Addr() == b.Addr() || a.Addr().IsUnspecified() || b.Addr().IsUnspecified())
}
