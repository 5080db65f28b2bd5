package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lameduck/e2e/world"
	"lameduck/e2e/world/load"
	"lameduck/e2e/world/proxy"
)

// result puts together what the client, Envoy's log and the pods tell.
func (n *node) result(outcome world.Outcome) (world.Result, error) {
	r := world.Result{Spec: n.spec, Load: outcome}
	// Envoy writes its log out five times a second.
	_ = poll(2*time.Second, func() error { return n.explain(r.Load.Failures) })
	seen := make(map[string]int)
	for _, p := range n.pods {
		served := p.served()
		for _, id := range served {
			seen[id]++
		}
		r.Pods = append(r.Pods, n.podResult(p, len(served), outcome.Start))
	}
	for _, times := range seen {
		if times > 1 {
			r.Replayed++
		}
	}
	for _, add := range n.records {
		add(outcome.Start, &r)
	}
	return r, nil
}

// explain adds to each failure what Envoy's log says of it; it fails if the log is silent on one.
func (n *node) explain(failures []world.Failure) error {
	entries := make(map[string]proxy.LogEntry)
	for _, p := range n.proxies {
		more, err := p.ReadAccessLog()
		if err != nil {
			return err
		}
		maps.Copy(entries, more)
	}
	var silent error
	for i := range failures {
		f := &failures[i]
		name := load.Name(f.ID)
		if f.Port > 0 {
			name = proxy.PortID + strconv.Itoa(int(f.Port))
		}
		e, ok := entries[name]
		if !ok && f.Kind != "stranger" {
			silent = fmt.Errorf("nothing of request %d in Envoy's log", f.ID)
		}
		f.Flags, f.Details, f.Upstream = e.Flags, e.Details, e.Upstream
	}
	return silent
}

func (n *node) podResult(p *pod, served int, start time.Time) world.Pod {
	out := world.Pod{Name: p.name, Address: n.podIP(p), Served: served, Checks: p.checks(), Refused: p.resets}
	for _, m := range p.all() {
		out.Marks = append(out.Marks, world.Mark{At: m.at.Sub(start), Container: m.container, What: m.what, Detail: m.detail})
	}
	if c := p.container(sidecarName); c != nil {
		log, _ := os.ReadFile(c.log)
		out.Log = string(log)
		words, _ := os.ReadFile(filepath.Join(p.dir, "termination-log"))
		if last := lastLine(string(words)); json.Valid([]byte(last)) {
			out.LastWords = json.RawMessage(last)
		}
	}
	return out
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
