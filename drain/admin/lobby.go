package admin

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// mercy is what a client has at least to send its line: it may lose the processor between connecting and writing.
const mercy = 100 * time.Millisecond

// lobby holds the clients whose line has not come yet. Where it is full, who has waited longest is sent away: so clients that
// send nothing never keep out one whose line is there, and a drain always gets through.
type lobby struct {
	places int
	left   chan struct{} // of one place: somebody has left

	mu      sync.Mutex
	waiting []guest // oldest first
}

type guest struct {
	conn  net.Conn
	since time.Time
}

func newLobby(places int) *lobby {
	return &lobby{places: places, left: make(chan struct{}, 1)}
}

// enter lets a client wait. Where it is full it returns only when a place is free, and who has to go for it, or nil.
func (l *lobby) enter(ctx context.Context, conn net.Conn) (oldest net.Conn) {
	for {
		oldest, wait := l.tryEnter(conn)
		if wait <= 0 {
			return oldest
		}
		select {
		case <-l.left:
		case <-time.After(wait):
		case <-ctx.Done():
			return nil // all are served to their end
		}
	}
}

// tryEnter tells how long to wait for the oldest's turn to go; 0: the client is in.
func (l *lobby) tryEnter(conn net.Conn) (oldest net.Conn, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if len(l.waiting) >= l.places {
		if wait := l.waiting[0].since.Add(mercy).Sub(now); wait > 0 {
			return nil, wait
		}
		oldest, l.waiting = l.waiting[0].conn, l.waiting[1:]
	}
	l.waiting = append(l.waiting, guest{conn, now})
	return oldest, 0
}

// leave is said by a client whose line has come or will not come. It may have been sent away before.
func (l *lobby) leave(conn net.Conn) {
	l.mu.Lock()
	l.waiting = slices.DeleteFunc(l.waiting, func(g guest) bool { return g.conn == conn })
	l.mu.Unlock()
	select {
	case l.left <- struct{}{}:
	default:
	}
}
