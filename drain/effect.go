package drain

import (
	"context"
	"fmt"
	"time"
)

// next moves the machine and does what it asks for.
func (d *Drain) next(e Event) {
	for _, effect := range d.machine.Next(time.Now(), e) {
		d.do(effect)
	}
	if failed := d.failed; failed != nil {
		d.failed = nil
		d.next(failed)
	}
}

func (d *Drain) do(effect Effect) {
	switch e := effect.(type) {
	case Watch:
		d.ports = e.Ports
		if err := d.options.Kernel.FilterPorts(e.Ports); err != nil {
			d.failed = Degraded{Text: fmt.Sprintf("destroy events cannot be had for the application's ports: %v", err), Blind: true}
		}
	case Arm:
		if d.options.Taker != nil && d.options.Taker.Targeted(e.Listener.Addr.Port()) {
			d.options.Taker.Arm(e.Listener)
		}
	case Kick:
		if d.options.Taker != nil {
			d.options.Taker.Kick()
		}
	case Sample:
		d.want = true
	case Release:
		d.unhold()
	case Speak:
		d.speak(e.Words)
	case Exit:
		d.speak(e.Words)
		d.words = &e.Words
	case Note:
		d.logger.LogAttrs(context.Background(), e.Level, e.Message, e.Attrs...)
	}
}

// speak adds what only the taker knows to the last words.
func (d *Drain) speak(w LastWords) {
	relay := d.relay()
	w.Relayed, w.RelayFailed = relay.Relayed, relay.Failed
	if d.options.Speak != nil {
		d.options.Speak(w)
	}
}
