package takeover

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// memory is how long, at least, the end of an own connection is remembered; at most twice as long.
const memory = 10 * time.Second

// pair names a connection: both addresses unmapped.
type pair struct {
	local, remote netip.AddrPort
}

// link is a connection that lameduck accepted, and the one to the peer that it is joined to.
type link struct {
	pair
	client *net.TCPConn
	peer   *net.TCPConn // conns.mu guards it until join returns
	check  bool         // a health check was failed on it; conns.mu guards it
}

// conns are the own connections. The zero value is ready.
type conns struct {
	mu            sync.Mutex
	open          map[pair]*link
	recent, older map[pair]bool // those that have ended: whether a health check was failed on them
	turned        time.Time
	closed        bool
}

func (c *conns) add(client *net.TCPConn) *link {
	l := &link{pair: pair{addrPort(client.LocalAddr()), addrPort(client.RemoteAddr())}, client: client}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[pair]*link)
	}
	if c.closed {
		client.Close()
	}
	c.open[l.pair] = l
	return l
}

// join gives the link its second connection; after closeAll both are closed.
func (c *conns) join(l *link, peer *net.TCPConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.peer = peer
	if c.closed {
		peer.Close()
	}
}

func (c *conns) remove(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[l.pair] == l { // the client may have come again from the same port
		delete(c.open, l.pair)
	}
	if now := time.Now(); now.Sub(c.turned) > memory {
		c.older, c.recent, c.turned = c.recent, make(map[pair]bool), now
	}
	c.recent[l.pair] = l.check
}

// failed notes that a health check was failed on the link.
func (c *conns) failed(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.check = true
}

// owns tells whether lameduck accepted a connection, and whether it failed a health check on it.
func (c *conns) owns(p pair) (ours, check bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.open[p]; l != nil {
		return true, l.check
	}
	for _, ended := range []map[pair]bool{c.recent, c.older} {
		if check, ours = ended[p]; ours {
			return ours, check
		}
	}
	return false, false
}

// closeAll ends every connection, those of later calls too.
func (c *conns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, l := range c.open {
		l.client.Close()
		if l.peer != nil {
			l.peer.Close()
		}
	}
}

func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
