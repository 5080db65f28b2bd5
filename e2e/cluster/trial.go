package cluster

import (
	"context"
	"fmt"
	"time"

	"lameduck/e2e/world"
)

// Fleet are backends that run side by side, so that their pods can be ended in the same way at the same time, each
// under a load of its own.
type Fleet struct {
	c        *Cluster
	backends []Backend
}

// NewFleet deploys backends, under names that none had before: pods of earlier ones may still be ending.
func (c *Cluster) NewFleet(ctx context.Context, backends ...Backend) (*Fleet, error) {
	f := &Fleet{c: c}
	n := c.fleets.Add(1)
	for _, b := range backends {
		b.Name = fmt.Sprintf("%s-%x%02d", b.Name, time.Now().Unix()&0xffff, n)
		f.backends = append(f.backends, b)
	}
	return f, c.Deploy(ctx, f.backends...)
}

// Remove deletes the fleet's backends.
func (f *Fleet) Remove(ctx context.Context) error { return f.c.Remove(ctx, f.backends...) }

// Trial is one way of ending pods, while Envoy hears of it Lag late.
type Trial struct {
	Action Action
	// Lag is how long the control plane stays frozen after the last pod's deletion has begun; 0: it is not frozen.
	Lag time.Duration
	// Rate is in requests a second, on each backend; 0 stands for 100.
	Rate float64
}

// Row is what came of a trial for one backend.
type Row struct {
	Backend Backend
	Action  Action
	Lag     time.Duration
	// At is when the action began.
	At   time.Time
	Load world.Outcome
	// Pods are those that ended.
	Pods []PodStory
	// Requests are Envoy's view.
	Requests []Request
}

const (
	// before is how long the load runs before the action, after how long beyond the lag: a pod that is held ends in it,
	// and the client gives up what it waits for.
	before = 2 * time.Second
	after  = 15 * time.Second
	// timeout is the client's.
	timeout = 5 * time.Second
)

// Try carries a trial out, and returns when every pod that it ended has gone: a row for each backend.
func (f *Fleet) Try(ctx context.Context, t Trial) ([]Row, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	if t.Rate == 0 {
		t.Rate = 100
	}
	// What an earlier trial ended is replaced by now, or is put back.
	if err := f.c.Deploy(ctx, f.backends...); err != nil {
		return nil, err
	}
	watch, err := f.c.WatchPods(ctx)
	if err != nil {
		return nil, err
	}
	loads, err := f.startLoads(ctx, t)
	if err != nil {
		return nil, err
	}
	<-time.After(time.Until(loads[len(loads)-1].Start.Add(before)))
	at, err := f.endPods(ctx, t, watch)
	if err != nil {
		return nil, err
	}
	return f.rows(ctx, t, watch, loads, at)
}

// rows waits for the loads' ends.
func (f *Fleet) rows(ctx context.Context, t Trial, watch *Watch, loads []*Load, at []time.Time) ([]Row, error) {
	rows := make([]Row, len(f.backends))
	for i, b := range f.backends {
		outcome, err := loads[i].Outcome()
		if err != nil {
			return nil, err
		}
		rows[i] = Row{Backend: b, Action: t.Action, Lag: t.Lag, At: at[i], Load: outcome}
		for _, p := range watch.Backend(b.Name) {
			if !p.Deleted.IsZero() {
				rows[i].Pods = append(rows[i].Pods, p)
			}
		}
	}
	requests, err := f.c.accessLog(ctx, loads[0].Start)
	if err != nil {
		return nil, err
	}
	for i, b := range f.backends {
		rows[i].Requests = of(requests, b.Name)
	}
	return rows, nil
}

func (f *Fleet) startLoads(ctx context.Context, t Trial) ([]*Load, error) {
	envoy, err := f.c.EnvoyAddress(ctx)
	if err != nil {
		return nil, err
	}
	loads := make([]*Load, len(f.backends))
	var starts []func() error
	for i, b := range f.backends {
		starts = append(starts, func() (err error) {
			loads[i], err = f.c.StartLoad(ctx, envoy, b.Name,
				world.Stream{Rate: t.Rate, Timeout: timeout, Path: "/", Until: before + t.Lag + after})
			return err
		})
	}
	return loads, together(starts...)
}

// endPods does what the trial is about, and returns when that began for each backend. It waits until the pods have
// ended.
func (f *Fleet) endPods(ctx context.Context, t Trial, watch *Watch) ([]time.Time, error) {
	at := make([]time.Time, len(f.backends))
	pods := make([][]string, len(f.backends))
	for i, b := range f.backends {
		var err error
		if pods[i], err = f.c.Pods(ctx, b.Name); err != nil {
			return nil, err
		}
		if want := b.withDefaults().Replicas; len(pods[i]) != want {
			return nil, fmt.Errorf("%s has %d pods, not %d", b.Name, len(pods[i]), want)
		}
	}
	container, err := f.c.controlPlane(ctx)
	if err != nil {
		return nil, err
	}
	if t.Lag > 0 {
		if err := f.c.freeze(ctx, container); err != nil {
			return nil, err
		}
		defer func() { _ = f.c.thaw(context.WithoutCancel(ctx), container) }()
	}
	var actions []func() error
	for i, b := range f.backends {
		actions = append(actions, func() error {
			at[i] = time.Now()
			return t.Action.Do(ctx, f.c, b.Name, pods[i])
		})
	}
	done := make(chan error, 1)
	go func() { done <- together(actions...) }()
	if err := watch.Until(ctx, func() bool { return f.ending(t, watch, pods) }); err != nil {
		return nil, err
	}
	if t.Lag > 0 {
		<-time.After(t.Lag)
		if err := f.c.thaw(ctx, container); err != nil {
			return nil, err
		}
	}
	if err := <-done; err != nil {
		return nil, err
	}
	return at, watch.Until(ctx, func() bool { return f.ended(watch) })
}

// ending tells whether all that shall end has begun to.
func (f *Fleet) ending(t Trial, watch *Watch, pods [][]string) bool {
	for i, b := range f.backends {
		want := t.Action.Ends
		if want == 0 {
			want = len(pods[i])
		}
		n := 0
		for _, p := range watch.Backend(b.Name) {
			if !p.Deleted.IsZero() {
				n++
			}
		}
		if n < want {
			return false
		}
	}
	return true
}

// ended tells whether all that has begun to end has ended.
func (f *Fleet) ended(watch *Watch) bool {
	for _, b := range f.backends {
		for _, p := range watch.Backend(b.Name) {
			if !p.Deleted.IsZero() && p.Gone.IsZero() {
				return false
			}
		}
	}
	return true
}
