package drain

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

const (
	// period of reading the counters in a drain.
	period = 250 * time.Millisecond
	// lateTick is by how much a tick is late where lameduck itself did not run.
	lateTick = time.Second
	// holdPatience is how long a hold waits for a drain to begin. The kubelet calls preStop also when it restarts a
	// container after a failed probe, and nothing tells which.
	holdPatience = 5 * time.Second
)

// Kernel is what the drain asks of the pod's network namespace. Tests replace it whole.
type Kernel struct {
	// Dump reports sockets by sock_diag, ProcDump from /proc where that is refused.
	Dump, ProcDump func(sockdiag.Query, func(*sockdiag.Socket) bool) error
	// FilterPorts lets the destroy events of these local ports pass, beside those of every listener.
	FilterPorts func([]uint16) error
	// Counters reads the segments received and the SYNs refused since the namespace began.
	Counters func() (inSegs, refused uint64, err error)
	// CPU is the CPU time of the calling thread, which dumps are paid from; nil takes the time that passes.
	CPU func() time.Duration
	// Addresses are the namespace's own, Gateways its default gateways.
	Addresses, Gateways func() ([]netip.Addr, error)
}

// Taker takes ports over. *takeover.Takeover is one; a nil Taker takes nothing.
type Taker interface {
	Arm(takeover.Listener)
	Kick()
	Owns(local, remote netip.AddrPort) (ours, check bool)
	Targeted(port uint16) bool
	Stats() takeover.Stats
}

// Options makes a Drain.
type Options struct {
	Config Config
	Kernel Kernel
	Taker  Taker
	// AppHealth is asked while serving; nil asks whether the application's ports listen.
	AppHealth func(context.Context) error
	// Speak hears the last words, at SIGTERM and at the exit. It must not block for long.
	Speak  func(LastWords)
	Logger *slog.Logger
}

// Drain runs a Machine: one goroutine owns it, everything else talks to that one.
type Drain struct {
	options  Options
	machine  *Machine
	logger   *slog.Logger
	inbox    chan Event          // rare: triggers, takeovers, degradations
	heard    chan sockdiag.Event // destroy events
	checks   chan Event          // of health checks, and of resets on taken ports
	asks     chan func()         // run by the owner between two events
	started  chan struct{}       // closed at the trigger
	released chan struct{}       // closed at the hold's release
	done     chan struct{}       // closed when Run returns
	holds    atomic.Int64

	// Owned by Run.
	ports   []uint16
	buffer  []Seen
	want    bool      // a sample is wanted
	budget  time.Time // no sample before
	ticked  time.Time // the last tick
	counted bool      // counters can be read
	failed  Event     // what an effect met, for the machine to hear after the others
	words   *LastWords
	final   Status
	// Kept outside the machine, for limp.
	start      time.Time
	terminated bool
}

// New returns a drain that is serving once Run is called.
func New(o Options) *Drain {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Drain{
		options:  o,
		machine:  NewMachine(o.Config),
		logger:   o.Logger,
		inbox:    make(chan Event, 64),
		heard:    make(chan sockdiag.Event, 256),
		checks:   make(chan Event, 256),
		asks:     make(chan func()),
		started:  make(chan struct{}),
		released: make(chan struct{}),
		done:     make(chan struct{}),
		counted:  true,
	}
}

// Run owns the drain until its exit, and returns the last words. If ctx ends first, its error is returned;
// holds that still wait then return.
func (d *Drain) Run(ctx context.Context) (LastWords, error) {
	defer close(d.done)
	words, err, panicked := d.loop(ctx)
	if panicked {
		words, err = d.limp(ctx)
	}
	return words, err
}

// loop is Run as long as nothing is wrong with us.
func (d *Drain) loop(ctx context.Context) (words LastWords, err error, panicked bool) {
	defer func() {
		if r := recover(); r != nil {
			panicked = true
			d.logger.Error("internal error: the drain is a bounded wait from here on",
				"panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	defer func() { d.final = d.status() }()
	d.list()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return LastWords{}, ctx.Err(), false
		case e := <-d.inbox:
			d.take(e)
		case e := <-d.heard:
			d.hear(e)
			if !e.Listener {
				continue // by the thousand: conclusions are drawn at the next tick
			}
		case e := <-d.checks:
			d.next(e)
			continue
		case ask := <-d.asks:
			ask()
		case <-timer.C:
			d.tick()
		}
		if d.words != nil {
			return *d.words, nil, false
		}
		d.sleep(timer)
	}
}

// sleep sets the timer for the next tick, which no event puts off: who asks for the status all the time would else
// stop the drain's clock. There is none while serving.
func (d *Drain) sleep(timer *time.Timer) {
	if !d.begun() {
		return
	}
	now := time.Now()
	next := d.ticked.Add(period)
	if wake := d.machine.Wake(now); !wake.IsZero() && wake.Before(next) {
		next = wake
	}
	if d.want && d.budget.Before(next) {
		next = d.budget // the conclusion that waits for a sample waits no longer than the budget
	}
	timer.Reset(max(next.Sub(now), time.Millisecond))
}

// tick reads the counters and takes a sample where it is needed and can be afforded.
func (d *Drain) tick() {
	d.catchUp()
	now := time.Now()
	if now.Sub(d.ticked) > period+lateTick {
		// We were stopped, or starved. The news of meanwhile may be on its way still.
		d.next(Lost{})
	}
	d.ticked = now
	d.next(Tick{})
	if d.machine.Stale() {
		d.want = true
	}
	d.sample()
}

// catchUp takes in what has come up to now, before a conclusion.
func (d *Drain) catchUp() {
	for range len(d.heard) {
		d.hear(<-d.heard)
	}
	d.count()
}

// take handles an event of the inbox.
func (d *Drain) take(e Event) {
	switch e := e.(type) {
	case Triggered:
		d.begin(e.By)
	case Terminated:
		d.terminated = true
		d.begin("SIGTERM")
		d.catchUp()
		d.next(e)
	case Took, Gave:
		d.count()
		d.next(e)
	default:
		d.next(e)
	}
	d.sample()
}

// begin starts the drain with a fresh look at the pod.
func (d *Drain) begin(by string) {
	if d.begun() {
		return
	}
	d.start = time.Now()
	d.ticked = d.start
	close(d.started) // first of all: the next health check has to fail
	own, err := d.options.Kernel.Addresses()
	if err != nil {
		d.next(Degraded{Text: fmt.Sprintf("the pod's own addresses are unknown (%v): the pod's own traffic may hold the drain", err)})
	}
	gateways, err := d.options.Kernel.Gateways()
	if err != nil {
		d.next(Degraded{Text: fmt.Sprintf("the default gateways are unknown (%v): name the node's addresses by --node-ip, or probes may hold the drain", err)})
	}
	d.list()
	d.next(Triggered{By: by, Own: own, Gateways: gateways})
}

// hear handles a destroy event.
func (d *Drain) hear(e sockdiag.Event) {
	switch {
	case e.Lost:
		d.next(Lost{})
	case e.Listener && d.begun():
		// Counted after the news: what was refused since the last tick, was refused for this death.
		d.next(ListenerDied{e.Socket.Local})
		d.count()
		d.sample()
		d.next(Tick{})
	case e.Listener:
		d.count()
		d.next(ListenerDied{e.Socket.Local})
	default:
		_, check := d.owns(&e.Socket)
		d.next(Ended{e.Socket, check})
	}
}

// owns tells whether lameduck itself accepted a connection, and whether it failed a health check on it.
func (d *Drain) owns(s *sockdiag.Socket) (ours, check bool) {
	if d.options.Taker == nil {
		return false, false
	}
	return d.options.Taker.Owns(s.Local, s.Remote)
}

func (d *Drain) relay() Relay {
	if d.options.Taker == nil {
		return Relay{}
	}
	s := d.options.Taker.Stats()
	return Relay{s.Relayed, s.Open, s.Failed, s.Looped, s.Checks, s.PeersKnown, s.PeersAnswer}
}

func (d *Drain) status() Status {
	return d.machine.Status(time.Now(), int(d.holds.Load()), d.relay())
}
