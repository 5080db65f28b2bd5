package admin

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxConnections bounds the connections that are served at once. Every Envoy keeps one open for each of its
	// clusters that checks this pod, so it is far above what probes need. One can cost 100 kB (HTTP/2, and a request on each
	// of its streams), and all must fit into a sidecar's memory.
	maxConnections = 512
	// maxHolds bounds the holds that are not counted as connections: a pod has one for each of its containers.
	maxHolds = 128
)

// limiter bounds the connections of a listener. A connection above the bound displaces one of the source that has most.
//
// Holds are the difficulty: each keeps its connection for minutes, so many of them could keep health checks out, and
// turning one away would end the life of its container at once (a hook that fails is followed by SIGTERM). So a hold
// gives its place back, and only a hold above maxHolds keeps it. At the very worst, where holds have all places, new
// connections wait, unanswered. For a hold that is still a hold, and nobody's hold is ever ended early.
type limiter struct {
	net.Listener
	crowd    crowd
	patience time.Duration // as the constant, longer in tests
	places   chan struct{}
	holds    chan struct{}
	once     sync.Once
	closed   chan struct{}
}

func limit(listener net.Listener, connections, holds int) *limiter {
	return &limiter{
		Listener: listener,
		patience: patience,
		places:   make(chan struct{}, connections),
		holds:    make(chan struct{}, holds),
		closed:   make(chan struct{}),
	}
}

// Accept waits for a connection, then for a place.
func (l *limiter) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &limited{Conn: conn, limiter: l, slot: l.places, source: sourceOf(conn)}
	if !l.takePlace(one.source) {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	l.crowd.enter(one)
	return one, nil
}

// takePlace waits for a place; false: the listener is closed.
func (l *limiter) takePlace(source netip.Addr) bool {
	for {
		select {
		case l.places <- struct{}{}:
			return true
		default:
		}
		var later <-chan time.Time
		switch oldest, wait := l.crowd.displaced(source, l.patience); {
		case oldest == nil: // all are holds, or on their way out
		case wait <= 0:
			oldest.displace()
			later = time.After(patience) // the server may be slow to see it
		default:
			later = time.After(wait)
		}
		select {
		case l.places <- struct{}{}:
			return true
		case <-later:
		case <-l.closed:
			return false
		}
	}
}

// crowded tells that a connection is no longer to be kept alive: so the last quarter of the places is never taken by idle
// ones of one source.
func (l *limiter) crowded(one *limited) bool {
	return len(l.places) > cap(l.places)*3/4 && l.crowd.largest(one)
}

// Close stops accepting; it may be called more than once.
func (l *limiter) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limited is a connection that occupies a place, or as a hold one among the holds.
type limited struct {
	net.Conn
	limiter *limiter
	source  netip.Addr

	mu     sync.Mutex
	slot   chan struct{} // what it occupies; nil once it is closed
	left   func()        // called at the close
	closed bool
}

// asks is said of a connection with a request; it tells whether its answer has to be the last.
func (c *limited) asks() (last bool) {
	c.limiter.crowd.asked(c)
	return c.limiter.crowded(c)
}

// hold moves the connection from the places to the holds, where there is room. It stays a hold until it is closed,
// so its last answer has to close it.
func (c *limited) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slot != c.limiter.places {
		return
	}
	c.limiter.crowd.leave(c)
	select {
	case c.limiter.holds <- struct{}{}:
		c.slot = c.limiter.holds
		<-c.limiter.places
	default:
	}
}

// whenClosed has f called once when the connection is closed, before its port can be another connection's; at once if
// it has been closed. What was said before stands.
func (c *limited) whenClosed(f func()) {
	c.mu.Lock()
	closed := c.closed
	if !closed && c.left == nil {
		c.left = f
	}
	c.mu.Unlock()
	if closed {
		f()
	}
}

// displace ends the connection. Its place is free only when the server has done with it: what it costs until then counts.
func (c *limited) displace() {
	c.end()
	_ = c.Conn.Close()
}

// Close closes the connection and leaves its place, once.
func (c *limited) Close() error {
	c.end()
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slot != nil {
		<-c.slot
		c.slot = nil
	}
	return err
}

// end does what has to be done before the close, once.
func (c *limited) end() {
	c.limiter.crowd.leave(c)
	c.mu.Lock()
	left := c.left
	c.left, c.closed = nil, true
	c.mu.Unlock()
	if left != nil {
		left()
	}
}
