package world_test

import (
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

// TestChecksOfADrainingHostDoNotHoldThePod: Envoy checks a host that is DRAINING for as long as it is there. C3
func TestChecksOfADrainingHostDoNotHoldThePod(t *testing.T) {
	const (
		lag    = 1500 * time.Millisecond
		asSeen = lag + quiet + time.Second      // a train known in time
		sleep  = 25*time.Second + 2*time.Second // a train that may as well be a lone client
		// The same where a busy machine spoils the rhythm, which alone tells: a check out of step just before counts once more.
		rhythm = sleep + quiet
		until  = deletedAt - 500*time.Millisecond // where there is no traffic in the drain
	)
	for _, c := range []struct {
		name    string
		envoys  int
		checker world.Active
		load    world.Stream
		// ends is when the pod has ended at the latest, by checker; those not named: asSeen.
		ends map[world.CheckKind]time.Duration
	}{
		{name: "kept connection", checker: world.Active{}},
		// Rhythm alone tells a gRPC check from a request, and a busy machine can spoil it: then it counts as long as the sleep.
		{name: "new connections", checker: world.Active{Fresh: true}, ends: map[world.CheckKind]time.Duration{world.CheckGRPC: rhythm}},
		{name: "kept, alone", load: world.Stream{Until: until},
			ends: map[world.CheckKind]time.Duration{world.CheckHTTP2: sleep, world.CheckGRPC: rhythm}},
		{name: "new, alone", checker: world.Active{Fresh: true}, load: world.Stream{Until: until},
			ends: map[world.CheckKind]time.Duration{world.CheckGRPC: rhythm}},
		// Out of step, and too long to be told from requests by their size.
		{name: "kept, jitter", checker: world.Active{Jitter: 300 * time.Millisecond},
			ends: map[world.CheckKind]time.Duration{world.CheckHTTP2: sleep, world.CheckGRPC: rhythm}},
		{name: "new, jitter", checker: world.Active{Fresh: true, Jitter: 300 * time.Millisecond},
			ends: map[world.CheckKind]time.Duration{world.CheckGRPC: rhythm}},
		{name: "two Envoys", envoys: 2, checker: world.Active{Fresh: true}, ends: map[world.CheckKind]time.Duration{world.CheckGRPC: rhythm}},
	} {
		for _, k := range checkers {
			t.Run(c.name+"/"+k.name, func(t *testing.T) {
				limit, ok := c.ends[k.kind]
				if !ok {
					limit = asSeen
				}
				checker := c.checker // one for each run
				checker.Kind = k.kind
				r := run(t, world.Spec{
					Protocol: k.protocol, Sidecar: holding("--min", "0s"), Grace: time.Minute,
					Load: []world.Stream{{Call: k.call, Rate: rate, Until: c.load.Until}}, Duration: deletedAt + limit + time.Second,
					Envoy:  world.Envoy{Count: c.envoys, Lag: lag, Draining: true, Policy: world.Policy{Active: &checker}},
					Events: deletePods(1),
				})
				lossless(t, r)
				endsBy(t, r, limit)
				if w := lastWords(t, r.Pods[0]); w.Reason != "quiet" {
					t.Errorf("reason %q", w.Reason)
				}
				t.Logf("the pod ended %.1f s after its deletion", endedAfter(t, r.Pods[0]).Seconds())
			})
		}
	}
}
