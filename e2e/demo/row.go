package demo

import (
	"encoding/json"
	"strings"
	"time"

	"lameduck/e2e/world"
)

// Row is a set-up and what came of it.
type Row struct {
	Setup
	Result world.Result
}

// pod is the one that was deleted.
func (r Row) pod() world.Pod { return r.Result.Pods[0] }

// failed is how many requests the client lost.
func (r Row) failed() int { return len(r.Result.Load.Failures) }

// timeouts is how many of them the client gave up.
func (r Row) timeouts() int { return r.Result.Load.Kinds()["timeout"] }

// refused is how many of them the dead pod's kernel refused, as Envoy's log tells.
func (r Row) refused() int {
	n := 0
	for _, f := range r.Result.Load.Failures {
		if f.Flags == "UF" && strings.Contains(f.Details, "remote_connection_failure") {
			n++
		}
	}
	return n
}

// counted is how many refused connections lameduck itself counted; false without lameduck.
func (r Row) counted() (int, bool) {
	var words struct{ Refused int }
	if r.Spec.Sidecar.Kind == world.NoSidecar || json.Unmarshal(r.pod().LastWords, &words) != nil {
		return 0, false
	}
	return words.Refused, true
}

// endedAfter is the pod's end, from its deletion.
func (r Row) endedAfter() time.Duration {
	d, _ := r.pod().EndedAfter()
	return d
}

// since is a time of the run as seconds from the deletion.
func (r Row) since(at time.Duration) float64 {
	deleted, _ := r.pod().Find("", world.MarkDeleted)
	return (at - deleted.At).Seconds()
}

// mark is when something first happened in the pod, as seconds from the deletion; false if it did not.
func (r Row) mark(container, what string) (float64, bool) {
	m, ok := r.pod().Find(container, what)
	return r.since(m.At), ok
}
