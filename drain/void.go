package drain

import (
	"net/netip"
	"time"
)

// void is the end of a connection of which the kernel tells next to nothing.
type void struct {
	from  netip.Addr
	port  uint16
	at    time.Time
	known bool // a sample has shown the connection: what is unknown is whether a request has come since
}

// maxVoids bounds those of which the next sample decides.
const maxVoids = 1024

// sift enters the void ends since the last sample. Where the application's listener has gone since, they are of its accept
// queue, which the kernel resets: peers that end together ask each other at that moment, and what is refused in it does not
// count either. The kernel takes a listener from the list before it resets the queue, so the next sample tells.
// moved: segments have come since the last sample. Where none have, an idle connection was closed.
func (l *ledger) sift(listens func(port uint16) bool, moved bool) {
	for _, v := range l.voids {
		if listens(v.port) && (moved || !v.known) {
			l.enterVoid(v.from, v.port, v.at)
		}
	}
	l.voids = l.voids[:0]
}

// void takes such an end.
func (l *ledger) void(v void) {
	if len(l.voids) < maxVoids {
		l.voids = append(l.voids, v)
	} else {
		l.enterVoid(v.from, v.port, v.at)
	}
}

func (l *ledger) enterVoid(from netip.Addr, port uint16, at time.Time) {
	src := l.source(from)
	src.connections++
	src.unseen(class{port: port}, at)
}
