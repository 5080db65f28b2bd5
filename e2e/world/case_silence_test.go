package world_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// What comes to a pod and carries no request of Envoy's does not keep it alive. The load goes on, and Envoy sends it to
// the other pods from the lag on: the dying one is a host that is DRAINING until it is gone.

// padded makes a request longer than any that is taken for a health check by its size.
var padded = "/metrics?" + strings.Repeat("x", 100)

func TestTrafficThatIsNoRequestDoesNotHoldThePod(t *testing.T) {
	const lag = 1500 * time.Millisecond
	checks := func(fresh bool) world.Policy {
		return world.Policy{Active: &world.Active{Path: "/healthz", Interval: 3 * time.Second, Timeout: time.Second, Fresh: fresh}}
	}
	direct := func(s world.Stream) []world.Stream {
		s.Name, s.Direct, s.Timeout = "other", true, time.Second
		return []world.Stream{s}
	}
	for _, c := range []struct {
		name    string
		policy  world.Policy
		probes  bool
		args    []string
		others  []world.Stream
		deleted time.Duration // 0: as usual
		limit   time.Duration // from the deletion; 0: lag + quiet
	}{
		{name: "C2 a pool of idle connections"},
		// Before the deletion the connection has had its three checks, which tell a train at first sight.
		{name: "C3 health checks on a kept connection", policy: checks(false), deleted: 10 * time.Second},
		// The third comes 9 s after the trigger at the latest.
		{name: "C3 health checks on new connections", policy: checks(true), limit: 9500 * time.Millisecond},
		{name: "C4 a scraper that is not Envoy", args: []string{"--envoy", "10.2.0.0/16"}, others: slices.Concat(
			direct(world.Stream{Rate: 0.2, Path: padded}), direct(world.Stream{Rate: 0.2, Path: padded, Keep: true}))},
		{name: "C5 the kubelet's probes", probes: true},
		{name: "C27 TCP checks that nobody announced", others: direct(world.Stream{Rate: 0.5, Connect: true}),
			limit: 7 * time.Second},
		{name: "C27 HTTP checks that nobody announced", others: direct(world.Stream{Rate: 0.5, Path: "/healthz"}),
			limit: 7 * time.Second},
		// No size tells these from a lone client's: they count for as long as the usual sleep.
		{name: "C27 checks as long as a request", others: direct(world.Stream{Rate: 0.5, Path: padded}),
			limit: 27 * time.Second},
	} {
		set(&c.deleted, deletedAt)
		set(&c.limit, lag+quiet)
		t.Run(c.name, func(t *testing.T) {
			spec := world.Spec{
				Sidecar: holding(append(c.args, "--min", "0s")...), Probes: c.probes, Grace: time.Minute,
				Duration: c.deleted + c.limit + 2*time.Second, Load: append([]world.Stream{{Rate: rate}}, c.others...),
				Envoy:  world.Envoy{Lag: lag, Draining: true, Policy: c.policy},
				Events: []world.Event{{At: c.deleted, Delete: []int{0}}},
			}
			r := run(t, spec)
			for _, f := range r.Load.Failures {
				if f.Stream == "" {
					t.Errorf("lost: %+v", f)
				}
			}
			endsBy(t, r, c.limit+time.Second)
			if ended := endedAfter(t, r.Pods[0]); ended < quiet {
				t.Errorf("ended after %v, before it could be quiet", ended)
			}
			if w := lastWords(t, r.Pods[0]); w.Reason != "quiet" {
				t.Errorf("reason %q", w.Reason)
			}
		})
	}
}

// TestSilentPodThatLeavesAtOnceLosesRequests is the row without lameduck.
func TestSilentPodThatLeavesAtOnceLosesRequests(t *testing.T) {
	r := run(t, world.Spec{
		Duration: 5 * time.Second, Events: deletePods(1),
		Envoy: world.Envoy{Lag: time.Second, Draining: true, Policy: world.Policy{
			Active: &world.Active{Path: "/healthz", Interval: 3 * time.Second, Timeout: time.Second},
		}},
	})
	if n := len(r.Load.Failures); n < rate/10 {
		t.Errorf("only %d requests lost", n)
	}
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
