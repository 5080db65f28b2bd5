package drain

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"lameduck/netns/sockdiag"
)

// share of one core that dumps may take: the kernel walks the TCP hash of the whole machine for each. Watching shall
// take 2 % at the most, and reading the counters, with the runtime's own wake-ups, takes half a percent.
const share = 0.015

// count reads the counters.
func (d *Drain) count() {
	segments, refused, err := d.options.Kernel.Counters()
	if err != nil {
		if d.counted {
			d.counted = false
			d.next(Degraded{Text: fmt.Sprintf("the namespace's counters cannot be read (%v): refused connections are not counted, and each tick takes a dump", err)})
		}
		d.next(Counted{Unknown: true})
		return
	}
	d.next(Counted{InSegs: segments, Refused: refused})
}

// listeners asks for every listener of the pod.
var listeners = sockdiag.Query{States: sockdiag.Of(sockdiag.Listen)}

// list takes in the pod's listeners.
func (d *Drain) list() {
	// Counted after the news: a listener that is missing has died unheard, and its event may come a second late. When it
	// died is unknown, so all that was refused since the last look is put down to it.
	defer d.count()
	var found []sockdiag.Socket
	collect := func(s *sockdiag.Socket) bool {
		found = append(found, *s)
		return true
	}
	if err := d.options.Kernel.Dump(listeners, collect); err != nil {
		found = found[:0]
		if perr := d.options.Kernel.ProcDump(listeners, collect); perr != nil {
			d.next(Degraded{Text: fmt.Sprintf("the pod's listeners cannot be listed (%v; %v)", err, perr)})
			return
		}
	}
	d.next(Listening{found})
}

// watched are the states of a connection that may still carry a request or an answer.
var watched = sockdiag.Of(sockdiag.Established, sockdiag.FinWait1, sockdiag.FinWait2,
	sockdiag.CloseWait, sockdiag.LastAck, sockdiag.Closing)

// sample takes a dump if one is wanted and the budget allows it.
func (d *Drain) sample() {
	now := time.Now()
	if !d.want || !d.begun() || d.words != nil || now.Before(d.budget) {
		return
	}
	d.want = false
	runtime.LockOSThread() // CPU time is a thread's
	before := d.spent()
	err := d.dump(d.options.Kernel.Dump)
	if err != nil {
		err = d.dump(d.options.Kernel.Dump) // a table that changes under a dump interrupts it
	}
	var perr error
	if err != nil {
		perr = d.dump(d.options.Kernel.ProcDump)
	}
	cost := d.spent() - before
	runtime.UnlockOSThread()
	// What was not spent in the last second may be spent now: the sample at SIGTERM must not wait.
	d.budget = later(d.budget, now.Add(-time.Second)).Add(time.Duration(float64(cost) / share))
	switch {
	case err == nil:
		d.next(Sampled{Sockets: d.buffer})
	case perr == nil:
		d.next(Sampled{Sockets: d.buffer, Blind: err})
	default:
		d.next(SampleFailed{errors.Join(err, perr)})
	}
}

// spent is what the budget counts by: preemption on a busy machine costs nobody else.
func (d *Drain) spent() time.Duration {
	if d.options.Kernel.CPU == nil {
		return time.Since(d.start)
	}
	return d.options.Kernel.CPU()
}

// dump reads the pod's listeners, of every port since the application may open more, and the connections of its ports.
func (d *Drain) dump(dump func(sockdiag.Query, func(*sockdiag.Socket) bool) error) error {
	d.buffer = d.buffer[:0]
	take := func(s *sockdiag.Socket) bool {
		ours, check := d.owns(s)
		d.buffer = append(d.buffer, Seen{Socket: *s, Ours: ours, Check: check})
		return true
	}
	if err := dump(listeners, take); err != nil || len(d.ports) == 0 {
		return err // without a port the query would mean every connection
	}
	return dump(sockdiag.Query{States: watched, Ports: d.ports}, take)
}
