package admin

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// patience is what a connection has at least for its next request, before another of its own source may take its place. It is
// short, since all who come later wait for as long behind that one.
const patience = 50 * time.Millisecond

// crowd knows who occupies the places, so that no source keeps another out: where all are taken, one that has come gets the
// place of a connection of the source that has most of them. Of these it is the one that has asked for nothing for longest.
// Envoy has few connections from each of its addresses; who has more than all others has itself to suffer.
type crowd struct {
	mu   sync.Mutex
	from map[netip.Addr]map[*limited]time.Time // when each has connected, or has asked last
}

func (c *crowd) enter(one *limited) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from == nil {
		c.from = map[netip.Addr]map[*limited]time.Time{}
	}
	if c.from[one.source] == nil {
		c.from[one.source] = map[*limited]time.Time{}
	}
	c.from[one.source][one] = time.Now()
}

// leave is said of a connection that is closed, and of a hold: that is never displaced.
func (c *crowd) leave(one *limited) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.from[one.source], one)
	if len(c.from[one.source]) == 0 {
		delete(c.from, one.source)
	}
}

// asked is said of a connection with a request.
func (c *crowd) asked(one *limited) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.from[one.source][one]; known {
		c.from[one.source][one] = time.Now()
	}
}

// most is the largest number of connections of one source.
func (c *crowd) most() int {
	most := 0
	for _, all := range c.from {
		most = max(most, len(all))
	}
	return most
}

// largest tells whether no source has more connections than this one's.
func (c *crowd) largest(one *limited) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.from[one.source]) >= c.most()
}

// displaced is the connection that has to go for one of that source, and how long it is still to be left: until it has asked for
// nothing for so long, if it is of that source too. nil if there is none.
func (c *crowd) displaced(by netip.Addr, patience time.Duration) (oldest *limited, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.most()
	var since time.Time
	for _, all := range c.from {
		if len(all) < most {
			continue
		}
		for one, asked := range all {
			if oldest == nil || asked.Before(since) {
				oldest, since = one, asked
			}
		}
	}
	if oldest != nil && oldest.source == by {
		wait = time.Until(since.Add(patience))
	}
	return oldest, wait
}

// sourceOf is where a connection comes from.
func sourceOf(conn net.Conn) netip.Addr {
	address, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	return address.Addr().Unmap()
}
