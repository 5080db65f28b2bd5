package node

import (
	"errors"
	"time"

	"lameduck/e2e/world"
)

// happen carries out one event; it returns when all that follows of it is over.
func (n *node) happen(e world.Event) error {
	if e.Get != nil {
		n.get(*e.Get)
	}
	if e.Freeze != nil {
		if err := n.freeze(*e.Freeze); err != nil {
			return err
		}
	}
	if e.Trace != nil {
		if err := n.trace(*e.Trace); err != nil {
			return err
		}
	}
	return errors.Join(
		forEach(e.Measure, n.measure),
		forEach(e.Unplug, n.unplug),
		forEach(e.Terminate, n.terminate),
		forEach(e.Drain, n.drain),
		forEach(e.Restart, n.restart),
		forEach(e.Delete, n.delete),
	)
}

func (n *node) restart(i int) error {
	p := n.pods[i]
	return n.kubelet.restart(p, p.container(appName))
}

func (n *node) unplug(i int) error { return n.net.divert(n.pods[i].at, n.spec.Gone) }

// delete ends a pod: the control plane learns of it after the lag, the kubelet at once.
func (n *node) delete(i int) error {
	p := n.pods[i]
	p.setDeleting()
	resets, err := sentResets(p.ns)
	if err != nil {
		return err
	}
	p.resets = resets
	var told chan error
	if lag := n.spec.Envoy.Lag; lag != world.Never {
		told = make(chan error, 1)
		go func() { told <- n.tell(p, lag) }()
	}
	n.kubelet.delete(p)
	// The route first, which takes no time: a real link's end takes tens of milliseconds, in which the kernel would still
	// answer for the pod, and one refused request is enough for outlier detection to hide the fault.
	if err := n.net.divert(p.at, n.spec.Gone); err != nil {
		return err
	}
	p.mark("", world.MarkGone, "")
	close(p.gone)
	if resets, err = sentResets(p.ns); err != nil {
		return err
	}
	p.resets = resets - p.resets
	if err := n.net.detach(p.name); err != nil {
		return err
	}
	if n.spec.Gone == world.Reused {
		if err := n.reuse(p); err != nil {
			return err
		}
	}
	if told == nil {
		return nil
	}
	return <-told
}

// tell makes the endpoints' list follow the deletion of a pod that begins now.
func (n *node) tell(p *pod, lag time.Duration) error {
	<-time.After(lag)
	if !n.spec.Envoy.Draining {
		return n.control.set(p.index, removed)
	}
	if err := n.control.set(p.index, draining); err != nil {
		return err
	}
	<-p.gone
	<-time.After(lag)
	return n.control.set(p.index, removed)
}
