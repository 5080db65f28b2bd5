package drain

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

// post hands an event to the owner; it is dropped where the drain is over.
func (d *Drain) post(e Event) {
	select {
	case d.inbox <- e:
	case <-d.done:
	}
}

// Trigger starts the drain, once; later calls change nothing.
func (d *Drain) Trigger(by string) { d.post(Triggered{By: by}) }

// Terminate is SIGTERM: it starts the drain if nothing else has, and allows the exit.
func (d *Drain) Terminate() { d.post(Terminated{}) }

// Degrade says what cannot be had. blind: without it traffic cannot be seen, and the hold is a bounded sleep.
func (d *Drain) Degrade(blind bool, format string, args ...any) {
	d.post(Degraded{Text: fmt.Sprintf(format, args...), Blind: blind})
}

// SetEnvoys says which addresses count as Envoy, beside those of the configuration.
func (d *Drain) SetEnvoys(addresses []netip.Addr) { d.post(Envoys{addresses}) }

// Hear takes a destroy event. It blocks while the owner is behind, so that the kernel's buffer does the queueing.
// A listener's death is passed on to the taker first: microseconds count.
func (d *Drain) Hear(e sockdiag.Event) {
	if e.Listener && d.options.Taker != nil && d.begun() {
		d.options.Taker.Kick()
	}
	select {
	case d.heard <- e:
	case <-d.done:
	}
}

// Took hears what the takeover does; it is a takeover.Options.Notify.
func (d *Drain) Took(e takeover.Event) {
	switch e.Kind {
	case takeover.Taken:
		d.post(Took{e.Listener})
	case takeover.Released:
		d.post(Gave{e.Listener})
	case takeover.CheckFailed:
		d.check(Checked{Source: e.Remote.Addr(), Port: e.Remote.Port(), Failed: true, Taken: true})
	case takeover.Reset:
		d.check(Cut{Source: e.Remote.Addr().Unmap(), Port: e.Listener.Addr.Port()})
	}
}

// Checked hears of each health check that was answered on the health port.
func (d *Drain) Checked(source netip.AddrPort, failed bool) {
	d.check(Checked{Source: source.Addr(), Port: source.Port(), Failed: failed})
}

// CheckerLeft hears that a connection on which the health port was asked is about to close.
func (d *Drain) CheckerLeft(source netip.AddrPort) { d.check(CheckerLeft{source}) }

// check waits for its turn. Were a check dropped where they come faster than the owner takes them, its checker would not be
// known, and not be waited for; and were its end, in vain.
func (d *Drain) check(e Event) {
	select {
	case d.checks <- e:
	case <-d.done:
	}
}

// Draining tells whether health checks have to fail: from the trigger on, but not in observe-only.
func (d *Drain) Draining() bool { return d.begun() && !d.options.Config.ObserveOnly }

// Begun is closed at the trigger.
func (d *Drain) Begun() <-chan struct{} { return d.started }

// begun tells whether the drain has begun.
func (d *Drain) begun() bool {
	select {
	case <-d.started:
		return true
	default:
		return false
	}
}

// Hold waits until the hold is released, or ctx or Run ends. Where no drain begins within 5 s it returns: the kubelet
// calls preStop also when it restarts a container, and then nobody is ending. In observe-only it returns at once.
func (d *Drain) Hold(ctx context.Context) {
	if d.options.Config.ObserveOnly {
		return
	}
	d.holds.Add(1)
	defer d.holds.Add(-1)
	patience := time.NewTimer(holdPatience)
	defer patience.Stop()
	select {
	case <-d.started:
	case <-patience.C:
		return
	case <-ctx.Done():
		return
	case <-d.done:
		return
	}
	select {
	case <-d.released:
	case <-ctx.Done():
	case <-d.done:
	}
}

// ask runs f in the owner's goroutine; it tells whether it did.
func (d *Drain) ask(ctx context.Context, f func()) bool {
	finished := make(chan struct{})
	select {
	case d.asks <- func() { defer close(finished); f() }:
		<-finished
		return true
	case <-d.done:
	case <-ctx.Done():
	}
	return false
}

// Status is a copy of the present state; after the exit, of the last one.
func (d *Drain) Status() Status {
	var s Status
	if d.ask(context.Background(), func() { s = d.status() }) {
		return s
	}
	return d.final
}

// AppHealth tells, while serving, whether the application is well: nil, or why not.
func (d *Drain) AppHealth(ctx context.Context) error {
	if d.options.AppHealth != nil {
		return d.options.AppHealth(ctx)
	}
	var missing error
	d.ask(ctx, func() {
		d.list()
		missing = d.machine.missing()
	})
	return missing
}

// missing says which of the application's ports do not listen.
func (m *Machine) missing() error {
	if len(m.config.Ports) == 0 && len(m.listed) == 0 {
		return errors.New("drain: the application listens on no port")
	}
	for _, p := range m.config.Ports {
		found := false
		for a := range m.listed {
			found = found || a.Port() == p
		}
		if !found {
			return fmt.Errorf("drain: the application does not listen on port %d", p)
		}
	}
	return nil
}
