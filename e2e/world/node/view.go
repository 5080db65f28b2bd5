package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"lameduck/e2e/world"
)

// viewEvery is how often an Envoy is asked what it thinks of the pods.
const viewEvery = 100 * time.Millisecond

// views keeps what the Envoys thought of the pods, and since when.
type views struct {
	mu      sync.Mutex
	changes []viewChange
}

type viewChange struct {
	at   time.Time
	view world.View
}

// watchViews asks every Envoy until the context ends.
func (n *node) watchViews(ctx context.Context) {
	if !n.spec.Envoy.Watch {
		return
	}
	v := &views{}
	for i := range n.proxies {
		go n.watchView(ctx, v, i)
	}
	n.record(func(start time.Time, r *world.Result) {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, c := range v.changes {
			c.view.At = c.at.Sub(start)
			r.Views = append(r.Views, c.view)
		}
	})
}

func (n *node) watchView(ctx context.Context, v *views, envoy int) {
	client := adminClient(n.proxies[envoy].Admin())
	pods := make(map[netip.Addr]int)
	for i, p := range n.pods {
		pods[n.podIP(p)] = i
	}
	last := make(map[world.View]string) // of views without their state
	tick := time.NewTicker(viewEvery)
	defer tick.Stop()
	for {
		at := time.Now()
		now, err := viewOf(client, envoy, pods)
		if err == nil { // an Envoy that is too busy to tell is asked again
			v.add(at, last, now)
			last = now
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// add keeps the differences between two views.
func (v *views) add(at time.Time, last, now map[world.View]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for view, state := range now {
		if last[view] != state {
			view.State = state
			v.changes = append(v.changes, viewChange{at, view})
		}
	}
	for view := range last {
		if _, there := now[view]; !there {
			view.State = "removed"
			v.changes = append(v.changes, viewChange{at, view})
		}
	}
}

// viewOf asks an Envoy for the state of each pod in each cluster.
func viewOf(client *http.Client, envoy int, pods map[netip.Addr]int) (map[world.View]string, error) {
	resp, err := client.Get("http://admin/clusters?format=json")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var said struct {
		Clusters []struct {
			Name  string
			Hosts []struct {
				Address struct {
					Socket struct{ Address string } `json:"socket_address"`
				}
				Health map[string]any `json:"health_status"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&said); err != nil {
		return nil, fmt.Errorf("clusters of Envoy: %w", err)
	}
	states := make(map[world.View]string)
	for _, c := range said.Clusters {
		for _, h := range c.Hosts {
			addr, err := netip.ParseAddr(h.Address.Socket.Address)
			if err != nil {
				return nil, fmt.Errorf("clusters of Envoy: %w", err)
			}
			states[world.View{Envoy: envoy, Cluster: c.Name, Pod: pods[addr]}] = stateOf(h.Health)
		}
	}
	return states, nil
}

// stateOf is what speaks against a host.
func stateOf(health map[string]any) string {
	var against []string
	for _, name := range slices.Sorted(maps.Keys(health)) {
		switch value := health[name]; {
		case value == true:
			against = append(against, name)
		case name == "eds_health_status" && value != "HEALTHY":
			against = append(against, fmt.Sprintf("%s=%v", name, value))
		}
	}
	if against == nil {
		return "healthy"
	}
	return strings.Join(against, ",")
}

// adminClient asks an Envoy's admin interface, on a connection each.
func adminClient(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &http.Client{Timeout: time.Second, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}
