package drain

import (
	"context"
	"fmt"
	"time"
)

// limp is the drain after a fault of our own: it looks at nothing, holds as long as it may and leaves at the
// deadline after a SIGTERM. No fault of ours may end a pod early; a sleep would not.
func (d *Drain) limp(ctx context.Context) (LastWords, error) {
	config := d.options.Config.withDefaults()
	begin := func() {
		if !d.begun() {
			d.start = time.Now()
			close(d.started)
		}
	}
	words := LastWords{LastWords: "exit", Phase: Done, Reason: ReasonDeadline,
		Why: "an internal error: the time was used up", Degraded: []string{"internal error"}}
	timer := time.NewTimer(time.Hour)
	for {
		timer.Stop()
		if d.begun() {
			now, end := time.Now(), d.start.Add(config.GracePeriod-exitMargin)
			if !now.Before(d.start.Add(config.holdFor())) {
				d.unhold()
			}
			if d.terminated && !now.Before(end) {
				words.Elapsed = seconds(now.Sub(d.start))
				d.speak(words)
				return words, nil
			}
			timer.Reset(period)
		}
		select {
		case <-ctx.Done():
			return LastWords{}, ctx.Err()
		case e := <-d.inbox:
			switch e.(type) {
			case Triggered:
				begin()
			case Terminated:
				begin()
				d.terminated = true
			}
		case <-d.heard:
		case <-d.checks:
		case ask := <-d.asks:
			d.guarded(ask)
		case <-timer.C:
		}
	}
}

// guarded keeps a second fault from ending what is left.
func (d *Drain) guarded(f func()) {
	defer func() {
		if r := recover(); r != nil {
			d.logger.Error("internal error", "panic", fmt.Sprint(r))
		}
	}()
	f()
}

// unhold releases the hold, once.
func (d *Drain) unhold() {
	select {
	case <-d.released:
	default:
		close(d.released)
	}
}
