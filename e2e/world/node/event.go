package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"lameduck/e2e/world"
)

// timedAnswer is a world.Answer whose time is not yet an offset.
type timedAnswer struct {
	at     time.Time
	answer world.Answer
}

// happen carries out one event; it returns when all that follows of it is over.
func (n *node) happen(e world.Event) error {
	if e.Get != nil {
		n.get(*e.Get)
	}
	if err := forEach(e.Restart, n.restart); err != nil {
		return err
	}
	return forEach(e.Delete, n.delete)
}

func (n *node) restart(i int) error {
	p := n.pods[i]
	return n.kubelet.restart(p, p.container(appName))
}

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

// get asks a pod from the node's side and keeps the answer.
func (n *node) get(g world.Get) {
	at := time.Now()
	url := "http://" + net.JoinHostPort(n.podIP(n.pods[g.Pod]).String(), strconv.Itoa(int(g.Port))) + g.Path
	status, body := n.ask(url, 5*time.Second)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers = append(n.answers, timedAnswer{at, world.Answer{Status: status, Body: body}})
}

// ask returns the status and body of a GET on a new connection; status 0 with the error as body if there is none.
func (n *node) ask(url string, timeout time.Duration) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := n.kubelet.hooks.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, fmt.Sprintf("read answer: %v", err)
	}
	return resp.StatusCode, string(body)
}
