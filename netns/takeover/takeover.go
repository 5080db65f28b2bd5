package takeover

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// retry is the pace of bind attempts: the event of a listener's death can come a second after the port is free
// (an un-accepted connection, a child process).
const retry = 5 * time.Millisecond

// Takeover takes ports over and relays their connections. Its methods may be called from any goroutine.
type Takeover struct {
	opts  Options
	log   *slog.Logger
	sys   system
	peers *peers
	conns conns
	slots slots

	kicked atomic.Int64 // when a listener died last, in nanoseconds of Unix time; 0: none has

	begin sync.Once
	armed chan struct{} // closed at the first Arm
	wake  chan struct{} // of one place: there is something to tend
	work  sync.WaitGroup
	heads sync.Pool // of *head

	mu      sync.Mutex
	running bool
	ports   []*port

	relayed, failed, looped, checks atomic.Uint64
	open                            atomic.Int64
	saidLoop                        atomic.Bool
}

// New returns a takeover that does nothing until it runs and a listener is armed.
func New(opts Options) *Takeover {
	return build(opts, kernel())
}

func build(opts Options, sys system) *Takeover {
	if opts.DialTimeout <= 0 {
		opts.DialTimeout = 500 * time.Millisecond
	}
	if opts.Notify == nil {
		opts.Notify = func(Event) {}
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &Takeover{opts: opts, log: log, sys: sys, armed: make(chan struct{}), wake: make(chan struct{}, 1)}
	t.peers = newPeers(opts, &t.sys, log, t.rouse)
	return t
}

// Run holds ports, and relays, until ctx is done; then it closes everything that it opened. Cancellation returns nil.
func (t *Takeover) Run(ctx context.Context) error {
	files := t.files()
	t.sys.spare.fill()
	defer t.sys.spare.close()
	select {
	case <-t.armed:
	case <-ctx.Done():
		return nil
	}
	t.slots = newSlots(files.relays, t.log)
	t.peers.asking = make(chan struct{}, files.probes)
	t.setRunning(true)
	t.work.Go(func() { t.peers.run(ctx) })
	t.loop(ctx)
	t.setRunning(false)
	t.conns.closeAll()
	t.work.Wait()
	return nil
}

// Arm makes the listener's port one to take: bind and listen are tried from now on, while a peer answers.
// A port without a relay target is never taken.
func (t *Takeover) Arm(l Listener) {
	l.Addr = netip.AddrPortFrom(l.Addr.Addr().Unmap(), l.Addr.Port())
	if !t.Targeted(l.Addr.Port()) || !t.add(l) {
		return
	}
	t.begin.Do(func() { close(t.armed) })
	t.rouse()
}

func (t *Takeover) add(l Listener) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.ports {
		if p.listener == l {
			return false
		}
	}
	t.ports = append(t.ports, newPort(l))
	return true
}

// Kick says that a listener has died: its port is tried at once, in the caller's goroutine where nobody else is at it.
// It takes microseconds and never blocks.
func (t *Takeover) Kick() {
	t.kicked.Store(time.Now().UnixNano())
	if t.mu.TryLock() {
		if t.running {
			for _, p := range t.ports {
				if t.backed(p) {
					_ = p.try(&t.sys) // the loop, roused below, says what hinders
				}
			}
		}
		t.mu.Unlock()
	}
	t.rouse()
}

// Owns tells whether lameduck itself accepted this connection, and whether it failed a health check on it: that was no
// request. It knows until some seconds after the connection's end, since the kernel reports a socket's death late.
func (t *Takeover) Owns(local, remote netip.AddrPort) (ours, check bool) {
	return t.conns.owns(pair{local, remote})
}

// Targeted tells whether a relay target is configured for the port.
func (t *Takeover) Targeted(port uint16) bool {
	return t.peers.targeted(port)
}

// SetPeers gives the target of this place in Options.Targets, a Given one, its peers in place of those that it had.
// New ones are probed at once; connections to those that have gone live on.
func (t *Takeover) SetPeers(target int, peers []Peer) {
	t.peers.set(target, peers)
}

// Stats are the counts since the start.
func (t *Takeover) Stats() Stats {
	known, answer := t.peers.count()
	return Stats{
		Relayed:     t.relayed.Load(),
		Open:        int(t.open.Load()),
		Failed:      t.failed.Load(),
		Looped:      t.looped.Load(),
		Checks:      t.checks.Load(),
		PeersKnown:  known,
		PeersAnswer: answer,
	}
}

// rouse makes the loop look at its ports.
func (t *Takeover) rouse() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *Takeover) setRunning(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = on
	if on {
		return
	}
	for _, p := range t.ports {
		p.drop()
		p.discard()
	}
}

// loop tends the ports at each call and, while one waits to become free, every 5 ms.
func (t *Takeover) loop(ctx context.Context) {
	timer := time.NewTimer(retry)
	defer timer.Stop()
	for {
		if t.tend(ctx) {
			timer.Reset(retry)
		} else {
			timer.Stop()
		}
		select {
		case <-t.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// tend takes what can be taken, releases what no peer stands behind, and tells of both; it reports whether a port waits.
func (t *Takeover) tend(ctx context.Context) (waits bool) {
	var events []Event
	t.mu.Lock()
	for _, p := range t.ports {
		if !t.backed(p) {
			if p.drop() {
				events = append(events, Event{Kind: Released, Listener: p.listener, Time: time.Now()})
			}
			if err := p.prepare(&t.sys); err != nil {
				p.complain(t.log, err)
				waits = true
			}
			continue
		}
		err := p.try(&t.sys)
		p.complain(t.log, err)
		if p.overdue(err, t.kicked.Load()) {
			t.work.Go(func() { t.explain(p) })
		}
		if p.state == listening {
			t.serve(ctx, p)
			events = append(events, Event{Kind: Taken, Listener: p.listener, Time: p.since})
		}
		waits = waits || p.state == free
	}
	t.mu.Unlock()
	t.tell(events)
	return waits
}

// backed tells whether a peer stands behind the port, and there are descriptors for a connection to it.
func (t *Takeover) backed(p *port) bool {
	return cap(t.slots.free) > 0 && t.peers.backs(p.listener.Addr.Port())
}

// serve begins to accept the connections of a port that has just become ours.
func (t *Takeover) serve(ctx context.Context, p *port) {
	p.take()
	ln, l, done := p.ln, p.listener, p.done
	t.work.Go(func() { t.accept(ctx, ln, l, done) })
}

func (t *Takeover) tell(events []Event) {
	for _, e := range events {
		switch e.Kind {
		case Taken:
			t.log.Info("port taken", "address", e.Listener.Addr)
			t.peers.probeAll() // what answered up to a second ago may have been this very port
		case Released:
			t.log.Warn("port released: no peer answers", "address", e.Listener.Addr)
		}
		t.opts.Notify(e)
	}
}
