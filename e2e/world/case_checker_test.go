package world_test

import (
	"slices"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// checkers are Envoy's, each on the application's own port.
var checkers = []struct {
	name     string
	kind     world.CheckKind
	protocol world.Protocol
	call     world.Call
}{
	{"HTTP1", world.CheckHTTP1, world.HTTP1, world.CallGet},
	{"HTTP2", world.CheckHTTP2, world.HTTP2, world.CallGet},
	{"gRPC", world.CheckGRPC, world.GRPC, world.CallGRPC},
	{"TCP", world.CheckTCP, world.HTTP1, world.CallGet},
}

const (
	checkedLag = 1500 * time.Millisecond
	// asSeen is when a pod has ended whose checks are known for a train in time.
	asSeen = checkedLag + quiet + time.Second
	// asSlept is when it has where they may as well be a lone client.
	asSlept = 25*time.Second + 2*time.Second
)

// checkedRow is a way of checking a host. A pod has ended asSeen, but where late says otherwise.
type checkedRow struct {
	name    string
	envoys  int
	checker world.Active
	alone   bool // no traffic in the drain
	late    []world.CheckKind
}

// TestChecksOfADrainingHostDoNotHoldThePod: Envoy checks a host that is DRAINING for as long as it is there. C3
func TestChecksOfADrainingHostDoNotHoldThePod(t *testing.T) {
	const jitter = 300 * time.Millisecond
	for _, row := range []checkedRow{
		{name: "kept connection"},
		{name: "new connections", checker: world.Active{Fresh: true}},
		{name: "kept, alone", alone: true, late: []world.CheckKind{world.CheckHTTP2, world.CheckGRPC}},
		{name: "new, alone", alone: true, checker: world.Active{Fresh: true}, late: []world.CheckKind{world.CheckGRPC}},
		// Out of step, and too long to be told from requests by their size.
		{name: "kept, jitter", checker: world.Active{Jitter: jitter}, late: []world.CheckKind{world.CheckHTTP2, world.CheckGRPC}},
		{name: "new, jitter", checker: world.Active{Fresh: true, Jitter: jitter}, late: []world.CheckKind{world.CheckGRPC}},
		{name: "two Envoys", envoys: 2, checker: world.Active{Fresh: true}},
	} {
		for _, k := range checkers {
			t.Run(row.name+"/"+k.name, func(t *testing.T) {
				limit := asSeen
				if slices.Contains(row.late, k.kind) {
					limit = asSlept
				}
				// Rhythm alone tells a gRPC check from a request, and a busy machine can spoil it: then it counts as long as the
				// sleep does, and one out of step just before for a quiet window more. Of three runs that must not be all.
				tries, most := 1, limit
				if k.kind == world.CheckGRPC {
					tries, most = 3, asSlept+quiet
				}
				t.Parallel()
				for try := 1; ; try++ {
					ended := row.run(t, k.kind, k.protocol, k.call, most)
					t.Logf("the pod ended %.1f s after its deletion", ended.Seconds())
					switch {
					case ended <= limit || t.Failed():
						return
					case try == tries:
						t.Errorf("in none of %d runs it ended by %v", tries, limit)
						return
					}
				}
			})
		}
	}
}

// run is one run of a row. It returns when the pod ended: once it has been silent for the quiet window, and by most.
func (row checkedRow) run(t *testing.T, kind world.CheckKind, protocol world.Protocol, call world.Call, most time.Duration) time.Duration {
	t.Helper()
	row.checker.Kind = kind
	load, silent := world.Stream{Call: call, Rate: rate}, checkedLag
	if row.alone {
		load.Until, silent = deletedAt-500*time.Millisecond, 0
	}
	r := runAlone(t, world.Spec{
		Protocol: protocol, Sidecar: holding("--min", "0s"), Grace: time.Minute,
		Load: []world.Stream{load}, Duration: deletedAt + most + time.Second,
		Envoy:  world.Envoy{Count: row.envoys, Lag: checkedLag, Draining: true, Policy: world.Policy{Active: &row.checker}},
		Events: deletePods(1),
	})
	lossless(t, r)
	endsBy(t, r, most)
	ended := endedAfter(t, r.Pods[0])
	if ended < silent+quiet-leeway {
		t.Errorf("the pod ended after %v", ended)
	}
	if w := lastWords(t, r.Pods[0]); w.Reason != "quiet" {
		t.Errorf("reason %q", w.Reason)
	}
	return ended
}
