package takeover

import (
	"log/slog"
	"net/netip"
	"time"
)

// Listener says where the application listened.
type Listener struct {
	Addr   netip.AddrPort
	V6Only bool
}

// Target names peers: every address that Host resolves to, on Host's port, or those that SetPeers gives.
type Target struct {
	// Port is the application port that is relayed to this target; 0 stands for every application port
	// that no target names.
	Port uint16
	// Host is host:port. Names are resolved anew at every probe.
	Host string
	// Given: the peers come by SetPeers, and Host is only what messages call them.
	Given bool
}

// Peer is another endpoint of the Service, as SetPeers takes it.
type Peer struct {
	// Port is the application port that it stands in for; 0: every port of its target.
	Port uint16
	Addr netip.AddrPort
	// Near peers are chosen before others while one of them answers.
	Near bool
}

// EventKind says what happened in a takeover.
type EventKind uint8

// The kinds of event.
const (
	// Taken: lameduck listens on the port.
	Taken EventKind = iota + 1
	// Released: lameduck no longer listens on the port, since no peer answers; the kernel refuses.
	Released
	// CheckFailed: a health check on a taken port was answered by what fails it.
	CheckFailed
	// Reset: a connection on a taken port was reset by lameduck: its peer reset it, or none accepted. The kernel tells
	// nothing of such a one. Connections that bore the loop mark, and health checks, are left out.
	Reset
)

// Event is told to Options.Notify.
type Event struct {
	Kind     EventKind
	Listener Listener
	Remote   netip.AddrPort // CheckFailed, Reset: who asked
	Time     time.Time
}

// Options configures a Takeover. The zero value relays to nobody.
type Options struct {
	Targets []Target
	// HealthPaths are request paths, gRPC methods too (/grpc.health.v1.Health/Check), that are health checks when they
	// are asked for by GET, HEAD, OPTIONS, or in gRPC, and bear no x-request-id.
	HealthPaths []string
	// DialTimeout bounds one dial of one peer. 0 stands for 500 ms.
	DialTimeout time.Duration
	// FilesKept is how many open files the connections of others than the takeover may need.
	FilesKept int
	Logger    *slog.Logger
	// Notify hears events, from any goroutine; it must not block.
	Notify func(Event)
}

// Stats are counted since the takeover's start.
type Stats struct {
	Relayed     uint64 // connections passed on to a peer
	Open        int    // relayed connections open now
	Failed      uint64 // taken connections that no peer accepted
	Looped      uint64 // taken connections that bore the loop mark
	Checks      uint64 // health checks failed, by an answer or by a cut
	PeersKnown  int
	PeersAnswer int
}
