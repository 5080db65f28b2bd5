package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/e2e/world"
)

// leastGrace is what the kubelet leaves a container for its SIGTERM when its hook and its waiting took everything
// (minimumGracePeriodInSeconds, pkg/kubelet/kuberuntime).
const leastGrace = 2 * time.Second

// kubelet ends pods and restarts containers.
type kubelet struct {
	grace time.Duration
	// hooks asks httpGet hooks; it has no timeout of its own, as the kubelet's has none.
	hooks *http.Client
}

func newKubelet(grace time.Duration) *kubelet {
	// The kubelet opens a connection for each hook and probe.
	return &kubelet{grace: grace, hooks: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// delete ends all containers of the pod and returns when the last has ended. The order is that of the kubelet: all
// hooks start together; a container without one gets SIGTERM at once; native sidecars get theirs when everything
// after them in the spec has ended; one clock of grace for all.
func (k *kubelet) delete(p *pod) {
	p.mark("", world.MarkDeleted, "")
	ended := make([]chan struct{}, len(p.containers))
	for i := range ended {
		ended[i] = make(chan struct{})
	}
	for i, c := range p.containers {
		lags := [2]time.Duration{c.lag(p), callLag(p)}
		var turn []chan struct{}
		if c.native {
			turn = ended[i+1:]
		}
		go func() {
			defer close(ended[i])
			k.stop(p, c, lags, turn)
		}()
	}
	for _, e := range ended {
		<-e
	}
}

// lag is how long after the deletion a container feels it: an exec hook takes longer than a call from the node.
func (c *container) lag(p *pod) time.Duration {
	if c.preStop != nil && c.preStop.exec != nil {
		return c.execDelay
	}
	return callLag(p)
}

// callLag is how long one call of the kubelet to the container runtime, or to a pod, takes to arrive.
func callLag(p *pod) time.Duration {
	return between(p.random, 10*time.Millisecond, 40*time.Millisecond)
}

// stop ends one container: its hook, its turn, SIGTERM, SIGKILL. lags are the times that the deletion takes to it, and
// that the SIGTERM takes once its turn has come.
func (k *kubelet) stop(p *pod, c *container, lags [2]time.Duration, turn []chan struct{}) {
	process := c.current()
	<-time.After(lags[0])
	clock := time.Now()
	if c.preStop != nil {
		k.runHook(p, c, clock.Add(k.grace))
	}
	if waitAll(turn, clock.Add(k.grace)) {
		<-time.After(lags[1])
	}
	deadline := clock.Add(k.grace)
	if least := time.Now().Add(leastGrace); deadline.Before(least) {
		deadline = least
	}
	k.terminate(p, c, process, deadline)
}

// terminate sends SIGTERM, and SIGKILL at the deadline, and waits for the end.
func (k *kubelet) terminate(p *pod, c *container, process *process, deadline time.Time) {
	select {
	case <-process.exited:
	default:
		p.mark(c.name, world.MarkTerm, "")
		_ = process.signal(unix.SIGTERM)
	}
	select {
	case <-process.exited:
	case <-time.After(time.Until(deadline)):
		p.mark(c.name, world.MarkKill, "")
		_ = process.signal(unix.SIGKILL)
		<-process.exited
	}
	p.mark(c.name, world.MarkExit, process.status())
}

// restart ends the container alone, as after a failed liveness probe, and starts it anew.
func (k *kubelet) restart(p *pod, c *container) error {
	k.stop(p, c, [2]time.Duration{c.lag(p), callLag(p)}, nil)
	if err := c.start(p.ns); err != nil {
		return err
	}
	p.mark(c.name, world.MarkStarted, "")
	return nil
}

// waitAll waits for all channels to be closed, until the deadline; it tells whether there was something to wait for,
// and it came.
func waitAll(channels []chan struct{}, deadline time.Time) bool {
	late := time.After(time.Until(deadline))
	for _, c := range channels {
		select {
		case <-c:
		case <-late:
			return false
		}
	}
	return len(channels) > 0
}

// runHook runs a container's preStop hook, at the longest until the deadline.
func (k *kubelet) runHook(p *pod, c *container, deadline time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	p.mark(c.name, world.MarkHookStart, "")
	var err error
	switch h := c.preStop; {
	case h.exec != nil:
		err = k.exec(ctx, p, c, h.exec)
	case h.http != "":
		err = k.httpHook(ctx, h.http)
	default:
		select {
		case <-time.After(h.wait):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		p.mark(c.name, world.MarkHookFailed, err.Error())
		return
	}
	p.mark(c.name, world.MarkHookEnd, "")
}

// exec runs a command in a container to its end.
func (k *kubelet) exec(ctx context.Context, p *pod, c *container, args []string) error {
	process, err := c.spawn(p.ns, args)
	if err != nil {
		return err
	}
	select {
	case <-process.exited:
	case <-ctx.Done():
		_ = process.signal(unix.SIGKILL)
		<-process.exited
		return ctx.Err()
	}
	if !process.cmd.ProcessState.Success() {
		return errors.New(process.status())
	}
	return nil
}

func (k *kubelet) httpHook(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := k.hooks.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return err
}
