package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lameduck/e2e/world"
)

// result puts together what the client, Envoy's log and the pods tell.
func (n *node) result(outcome world.Outcome) (world.Result, error) {
	r := world.Result{Spec: n.spec, Load: outcome}
	for _, p := range n.proxies {
		entries, err := p.ReadAccessLog()
		if err != nil {
			return r, err
		}
		for i, f := range r.Load.Failures {
			if e, ok := entries[strconv.Itoa(f.ID)]; ok {
				r.Load.Failures[i].Flags, r.Load.Failures[i].Details, r.Load.Failures[i].Upstream = e.Flags, e.Details, e.Upstream
			}
		}
	}
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
	for _, a := range n.answers {
		a.answer.At = a.at.Sub(outcome.Start)
		r.Answers = append(r.Answers, a.answer)
	}
	return r, nil
}

func (n *node) podResult(p *pod, served int, start time.Time) world.Pod {
	out := world.Pod{Name: p.name, Address: n.podIP(p), Served: served, Refused: p.resets}
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
