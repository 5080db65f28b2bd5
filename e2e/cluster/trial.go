package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lameduck/e2e/world"
)

// Trial ends pods of several backends in the same way at the same time, each under a load of its own, while Envoy
// hears of it Lag late.
type Trial struct {
	Backends []Backend
	Action   Action
	// Lag is how long the control plane is frozen from the action on; 0: it is not.
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

// Try carries a trial out: it deploys the backends, and removes them afterwards.
func (c *Cluster) Try(ctx context.Context, t Trial) (rows []Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	if t.Rate == 0 {
		t.Rate = 100
	}
	t.Backends = c.renamed(t.Backends)
	if err := c.Deploy(ctx, t.Backends...); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Remove(context.WithoutCancel(ctx), t.Backends...)) }()
	watch, err := c.WatchPods(ctx)
	if err != nil {
		return nil, err
	}
	loads, err := c.startLoads(ctx, t)
	if err != nil {
		return nil, err
	}
	<-time.After(time.Until(loads[len(loads)-1].Start.Add(before)))
	at, err := c.endPods(ctx, t, watch)
	if err != nil {
		return nil, err
	}
	rows = make([]Row, len(t.Backends))
	for i, b := range t.Backends {
		rows[i] = Row{Backend: b, Action: t.Action, Lag: t.Lag, At: at[i]}
		if rows[i].Load, err = loads[i].Outcome(); err != nil {
			return nil, err
		}
	}
	requests, err := c.accessLog(ctx, loads[0].Start)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Requests = of(requests, rows[i].Backend.Name)
		for _, p := range watch.Backend(rows[i].Backend.Name) {
			if !p.Deleted.IsZero() {
				rows[i].Pods = append(rows[i].Pods, p)
			}
		}
	}
	return rows, nil
}

// renamed gives backends names that no earlier trial's had: pods of those may still be ending.
func (c *Cluster) renamed(backends []Backend) []Backend {
	trial := c.trials.Add(1)
	named := make([]Backend, len(backends))
	for i, b := range backends {
		b.Name = fmt.Sprintf("%s-%x%02d", b.Name, time.Now().Unix()&0xffff, trial)
		named[i] = b
	}
	return named
}

func (c *Cluster) startLoads(ctx context.Context, t Trial) ([]*Load, error) {
	envoy, err := c.EnvoyURL(ctx)
	if err != nil {
		return nil, err
	}
	loads := make([]*Load, len(t.Backends))
	var starts []func() error
	for i, b := range t.Backends {
		starts = append(starts, func() (err error) {
			loads[i], err = c.StartLoad(ctx, envoy, b.Name,
				world.Stream{Rate: t.Rate, Timeout: timeout, Path: "/", Until: before + t.Lag + after})
			return err
		})
	}
	return loads, together(starts...)
}

// endPods does what the trial is about, and returns when that began for each backend. It waits until the pods have
// ended.
func (c *Cluster) endPods(ctx context.Context, t Trial, watch *Watch) ([]time.Time, error) {
	at := make([]time.Time, len(t.Backends))
	pods := make([][]string, len(t.Backends))
	for i, b := range t.Backends {
		var err error
		if pods[i], err = c.Pods(ctx, b.Name); err != nil {
			return nil, err
		}
		if want := b.withDefaults().Replicas; len(pods[i]) != want {
			return nil, fmt.Errorf("%s has %d pods, not %d", b.Name, len(pods[i]), want)
		}
	}
	container, err := c.controlPlane(ctx)
	if err != nil {
		return nil, err
	}
	if t.Lag > 0 {
		if err := c.freeze(ctx, container); err != nil {
			return nil, err
		}
		defer func() { _ = c.thaw(context.WithoutCancel(ctx), container) }()
	}
	var actions []func() error
	for i, b := range t.Backends {
		actions = append(actions, func() error {
			at[i] = time.Now()
			return t.Action.do(ctx, c, b.Name, pods[i])
		})
	}
	done := make(chan error, 1)
	go func() { done <- together(actions...) }()
	if err := watch.Until(ctx, func() bool { return ending(t, watch, pods) }); err != nil {
		return nil, err
	}
	if t.Lag > 0 {
		<-time.After(t.Lag)
		if err := c.thaw(ctx, container); err != nil {
			return nil, err
		}
	}
	if err := <-done; err != nil {
		return nil, err
	}
	return at, watch.Until(ctx, func() bool { return ended(t, watch) })
}

// ending tells whether all that shall end has begun to.
func ending(t Trial, watch *Watch, pods [][]string) bool {
	for i, b := range t.Backends {
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
func ended(t Trial, watch *Watch) bool {
	for _, b := range t.Backends {
		for _, p := range watch.Backend(b.Name) {
			if !p.Deleted.IsZero() && p.Gone.IsZero() {
				return false
			}
		}
	}
	return true
}
