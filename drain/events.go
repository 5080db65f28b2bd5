package drain

import (
	"log/slog"
	"net/netip"

	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

// An Event is what the machine hears.
type Event interface{ event() }

// The events.
type (
	// Listening is a whole list of the pod's listeners, at the start, at a health probe, and at the trigger.
	Listening struct{ Listeners []sockdiag.Socket }
	// Triggered starts the drain.
	Triggered struct {
		By string
		// Own are the pod's addresses, Gateways its default gateways.
		Own, Gateways []netip.Addr
	}
	// Terminated is SIGTERM: the exit is allowed from now on.
	Terminated struct{}
	// Counted is a reading of the namespace's counters.
	Counted struct {
		InSegs  uint64 // segments received
		Refused uint64 // SYNs answered with RST, since the namespace began
		Unknown bool   // the counters cannot be read: anything may have come
	}
	// Sampled is a dump of the application ports: listeners and connections.
	Sampled struct {
		Sockets []Seen
		// Blind is why the sockets come from /proc, which does not tell when data came; nil where sock_diag answers.
		Blind error
	}
	// SampleFailed: neither the kernel nor /proc tell what is open.
	SampleFailed struct{ Err error }
	// ListenerDied: a listener of the pod is gone.
	ListenerDied struct{ Listener netip.AddrPort }
	// Ended: a connection of an application port is gone; its last figures.
	Ended struct {
		Socket sockdiag.Socket
		Check  bool // as in Seen
	}
	// Lost: destroy events were dropped by the kernel.
	Lost struct{}
	// Took and Gave: lameduck listens on a port, or no longer does.
	Took struct{ Listener takeover.Listener }
	Gave struct{ Listener takeover.Listener }
	// Checked: a health check was answered, on the health port or on a taken one.
	Checked struct {
		Source netip.Addr
		Port   uint16 // the source's: names the connection
		Failed bool
		Taken  bool // on a taken port
	}
	// CheckerLeft: a connection on which the health port was asked is about to close.
	CheckerLeft struct{ Source netip.AddrPort }
	// Cut: lameduck has reset a connection on a taken port, of which the kernel tells next to nothing.
	Cut struct {
		Source netip.Addr
		Port   uint16 // the taken one
	}
	// Envoys are addresses that count as Envoy, beside those of the configuration.
	Envoys struct{ Addresses []netip.Addr }
	// Degraded: something that lameduck needs cannot be had.
	Degraded struct {
		Text string
		// Blind: without it activity cannot be seen.
		Blind bool
	}
	// Tick: time has passed.
	Tick struct{}
)

// Seen is a socket and whose it is.
type Seen struct {
	sockdiag.Socket
	// Ours: lameduck itself accepted it.
	Ours bool
	// Check: lameduck failed a health check on it, and closed it. It carries no request.
	Check bool
}

func (Listening) event()    {}
func (Triggered) event()    {}
func (Terminated) event()   {}
func (Counted) event()      {}
func (Sampled) event()      {}
func (SampleFailed) event() {}
func (ListenerDied) event() {}
func (Ended) event()        {}
func (Lost) event()         {}
func (Took) event()         {}
func (Gave) event()         {}
func (Checked) event()      {}
func (CheckerLeft) event()  {}
func (Cut) event()          {}
func (Envoys) event()       {}
func (Degraded) event()     {}
func (Tick) event()         {}

// An Effect is what the machine wants done.
type Effect interface{ effect() }

// The effects.
type (
	// Watch: follow these ports from now on.
	Watch struct{ Ports []uint16 }
	// Arm: take this listener's place as soon as the application has left it.
	Arm struct{ Listener takeover.Listener }
	// Kick: a listener died; try now.
	Kick struct{}
	// Sample: dump as soon as the budget allows.
	Sample struct{}
	// Release every hold, now and later.
	Release struct{}
	// Speak writes the last words.
	Speak struct{ Words LastWords }
	// Exit ends lameduck.
	Exit struct{ Words LastWords }
	// Note is a log line.
	Note struct {
		Level   slog.Level
		Message string
		Attrs   []slog.Attr
	}
)

func (Watch) effect()   {}
func (Arm) effect()     {}
func (Kick) effect()    {}
func (Sample) effect()  {}
func (Release) effect() {}
func (Speak) effect()   {}
func (Exit) effect()    {}
func (Note) effect()    {}
