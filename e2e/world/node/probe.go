package node

import (
	"net"
	"strconv"
	"time"

	"lameduck/e2e/world"
)

// probe runs the pod's readiness and liveness probes each second, a new connection each, as the kubelet does: liveness
// until the deletion, readiness until the application's container has ended. They only ask; a restart is an Event.
func (n *node) probe(p *pod) {
	url := "http://" + net.JoinHostPort(n.podIP(p).String(), strconv.Itoa(world.AppPort)) + "/healthz"
	go n.everySecond(p, func() bool {
		select {
		case <-p.container(appName).current().exited:
			return !p.isDeleting() // a container that is not running is not probed
		default:
		}
		status, _ := ask(n.kubelet.hooks, "", url, time.Second)
		if status != 200 {
			p.mark(appName, world.MarkUnready, strconv.Itoa(status))
		}
		return true
	})
	go n.everySecond(p, func() bool {
		if p.isDeleting() {
			return false
		}
		ask(n.kubelet.hooks, "", url, time.Second)
		return true
	})
}

// everySecond calls f until it returns false or the pod is gone.
func (n *node) everySecond(p *pod, f func() bool) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !f() {
				return
			}
		case <-p.gone:
			return
		}
	}
}

func (p *pod) setDeleting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deleting = true
}

func (p *pod) isDeleting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deleting
}
