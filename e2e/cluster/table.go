package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"lameduck/e2e/world"
	"lameduck/e2e/world/load"
)

// Failed is how many requests the client lost.
func (r Row) Failed() int { return len(r.Load.Failures) }

// Kind counts the client's failures of a kind, as world.Failure names them.
func (r Row) Kind(kind string) int { return r.Load.Kinds()[kind] }

// Flagged are the failed requests that Envoy logged with a response flag, without those that the client gave up.
func (r Row) Flagged(flag string) []world.Failure {
	logged := make(map[string]bool)
	for _, q := range r.Requests {
		logged[q.ID] = q.Flags == flag
	}
	var failed []world.Failure
	for _, f := range r.Load.Failures {
		if f.Kind != "timeout" && logged[load.Name(f.ID)] {
			failed = append(failed, f)
		}
	}
	return failed
}

// Refused is how many connections the ending pods' kernels refused, as lameduck counted them; false without lameduck.
func (r Row) Refused() (int, bool) {
	refused, told := 0, false
	for _, p := range r.Pods {
		var words struct{ Refused int }
		if json.Unmarshal([]byte(p.LastWords), &words) == nil {
			refused, told = refused+words.Refused, true
		}
	}
	return refused, told
}

// Lagged is the propagation lag as Envoy's log shows it: a pod's deletion until the last request that was sent to it,
// the longest of the pods'.
func (r Row) Lagged() time.Duration {
	var lag time.Duration
	for _, p := range r.Pods {
		if last := lastTo(r.Requests, p.IP); !last.IsZero() {
			lag = max(lag, last.Sub(p.Deleted))
		}
	}
	return lag
}

// EndedAfter is the longest time from a pod's deletion to its end.
func (r Row) EndedAfter() time.Duration {
	var longest time.Duration
	for _, p := range r.Pods {
		after, _ := p.EndedAfter()
		longest = max(longest, after)
	}
	return longest
}

// Table writes the rows.
func Table(w io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "set-up\taction\tfrozen\tsent\tfailed\ttimeouts\trefused: client / lameduck's count\tcut\tother\tlag measured\tp99\tpod ended after")
	for _, r := range slices.SortedStableFunc(slices.Values(rows), func(a, b Row) int { return int(a.Lag - b.Lag) }) {
		refused, cut := len(r.Flagged("UF")), len(r.Flagged("UC"))
		other := r.Failed() - r.Kind("timeout") - refused - cut
		counted := strconv.Itoa(refused)
		if told, ok := r.Refused(); ok {
			counted = fmt.Sprintf("%d / %d", refused, told)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%d\t%d\t%s\t%s\t%s\n", r.Backend.Title, r.Action.Name,
			strconv.Itoa(int(r.Lag.Seconds()))+" s", r.Load.Sent, r.Failed(), r.Kind("timeout"), counted, cut, other,
			seconds(r.Lagged()), r.Load.P99.Round(100*time.Microsecond), seconds(r.EndedAfter()))
	}
	return table.Flush()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
