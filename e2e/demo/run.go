package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"lameduck/e2e/world"
)

// together is how many worlds run at a time: more would cost the figures their honesty on two processors.
const together = 4

// Run runs all set-ups and tells progress how each went.
func Run(ctx context.Context, tools world.Tools, setups []Setup, progress io.Writer) ([]Row, error) {
	rows := make([]Row, len(setups))
	failed := make([]error, len(setups))
	free := make(chan struct{}, together)
	say := teller(progress)
	say("%d set-ups, %d at a time: 3 pods, %d requests/s, one pod deleted, Envoy hears of it %v later", len(setups), together, rate, lag)
	var wg sync.WaitGroup
	for _, i := range longestFirst(setups) {
		free <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			s := setups[i]
			say("  %-31s %-17s runs ...", s.Name, s.App)
			var result world.Result
			if result, failed[i] = tools.Run(ctx, s.Spec, progress); failed[i] != nil {
				return
			}
			rows[i] = Row{s, result}
			say("  %-31s %-17s %d of %d failed, the pod ended after %s", s.Name, s.App,
				rows[i].failed(), result.Load.Sent, seconds(rows[i].endedAfter()))
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	return rows, errors.Join(failed...)
}

// longestFirst is the order to start in: the set-ups whose pods live long, then the rest.
func longestFirst(setups []Setup) []int {
	var long, short []int
	for i, s := range setups {
		if s.Spec.PreStopSleep > 0 || s.Spec.App.OnTerm == world.Ignore {
			long = append(long, i)
		} else {
			short = append(short, i)
		}
	}
	return append(long, short...)
}

// teller writes whole lines with the time since its making.
func teller(out io.Writer) func(format string, args ...any) {
	var mu sync.Mutex
	start := time.Now()
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(out, "%4.0fs "+format+"\n", append([]any{time.Since(start).Seconds()}, args...)...)
	}
}

func seconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
