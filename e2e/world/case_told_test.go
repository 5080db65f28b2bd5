package world_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// told is one row of the table of TestToldSourcesEndTheDrainEarly.
type told struct {
	name     string
	protocol world.Protocol
	tls      bool
	check    *world.Active // nil: no health checks
	trust    bool
	envoys   int
	rules    []world.Rule
	// limit is from the deletion, at the latest; floor the earliest that does not lose requests.
	floor, limit time.Duration
}

// TestToldSourcesEndTheDrainEarly: Envoy checks lameduck's port each second and hears of the deletion late. With
// --trust-checks the pod ends when every checker has been failed and Envoy has been silent for a second. C14
func TestToldSourcesEndTheDrainEarly(t *testing.T) {
	const lag, interval, soon = 10 * time.Second, time.Second, 2500 * time.Millisecond
	on := func(kind world.CheckKind, fresh bool) *world.Active {
		return &world.Active{Kind: kind, Port: adminPort, Interval: interval, Fresh: fresh}
	}
	checked := world.Policy{Active: on(world.CheckHTTP1, false)}
	var mu sync.Mutex
	var table []string
	add := func(name string, r world.Result) {
		mu.Lock()
		defer mu.Unlock()
		ended, _ := r.Pods[0].EndedAfter()
		table = append(table, fmt.Sprintf("| %-72s | %5d | %6.1f s |", name, len(r.Load.Failures), ended.Seconds()))
	}
	t.Run("rows", func(t *testing.T) {
		for _, row := range []told{
			{name: "no checks", floor: lag, limit: lag + quiet + leeway},
			{name: "checks, not trusted: --min", check: on(world.CheckHTTP1, false), floor: lag - leeway, limit: lag + leeway},
			{name: "HTTP/1.1 checks", check: on(world.CheckHTTP1, false), trust: true, limit: soon},
			{name: "HTTP/1.1 checks in TLS", check: on(world.CheckHTTP1, false), tls: true, trust: true, limit: soon},
			{name: "HTTP/2 checks", protocol: world.HTTP2, check: on(world.CheckHTTP2, false), trust: true, limit: soon},
			{name: "gRPC checks", protocol: world.HTTP2, check: on(world.CheckGRPC, false), trust: true, limit: soon},
			{name: "gRPC checks in TLS", protocol: world.HTTP2, check: on(world.CheckGRPC, false), tls: true, trust: true, limit: soon},
			{name: "HTTP/1.1 checks of two Envoys with two rules each", check: on(world.CheckHTTP1, false), trust: true, envoys: 2,
				rules: []world.Rule{{Prefix: "/other", Policy: checked}}, limit: soon},
			// One of the two rules sends little and is checked seldom: a premature end would lose what comes meanwhile.
			{name: "HTTP/1.1 checks, those of another rule each 4 s", check: on(world.CheckHTTP1, false), trust: true,
				rules: []world.Rule{{Prefix: "/other", Policy: world.Policy{Active: &world.Active{Port: adminPort, Interval: 4 * time.Second}}}},
				limit: 4*time.Second + soon - interval},
			// Nobody knows how many they are: 5 s are waited for them.
			{name: "HTTP/1.1 checks, a connection for each", check: on(world.CheckHTTP1, true), trust: true, limit: 6500 * time.Millisecond},
			// Another rule's traffic goes on to the end of the lag, and holds.
			{name: "HTTP/1.1 checks, and a rule without any", check: on(world.CheckHTTP1, false), trust: true,
				rules: []world.Rule{{Prefix: "/other"}}, floor: lag, limit: lag + quiet + leeway},
		} {
			t.Run(row.name, func(t *testing.T) {
				r := run(t, row.spec(lag))
				lossless(t, r)
				endsBy(t, r, row.limit)
				if ended := endedAfter(t, r.Pods[0]); ended < row.floor {
					t.Errorf("ended after %v, before %v", ended, row.floor)
				}
				if w := lastWords(t, r.Pods[0]); w.Reason != "quiet" {
					t.Errorf("reason %q", w.Reason)
				}
				add("lameduck, "+row.name+map[bool]string{true: ", trusted"}[row.trust], r)
			})
		}
		t.Run("without lameduck", func(t *testing.T) {
			r := run(t, world.Spec{Duration: lag, Envoy: world.Envoy{Lag: lag}, Events: deletePods(1)})
			if n := len(r.Load.Failures); n < rate {
				t.Errorf("only %d requests lost", n)
			}
			add("nothing", r)
		})
	})
	slices.Sort(table)
	t.Logf("lag %v, checks each %v\n| %-72s | lost  | pod ended |\n%s", lag, interval, "set-up", strings.Join(table, "\n"))
}

func (row told) spec(lag time.Duration) world.Spec {
	set(&row.envoys, 1)
	args := []string{}
	if row.trust {
		args = append(args, "--trust-checks")
	}
	for i := range row.envoys {
		args = append(args, "--envoy", fmt.Sprintf("10.2.0.%d", 10+i))
	}
	if row.tls {
		args = append(args, "--admin-cert", "/tls/tls.crt", "--admin-key", "/tls/tls.key")
	}
	sidecar := holding(args...)
	sidecar.HookDelay = 60 * time.Millisecond // as measured on a kubelet, without a CPU limit
	load := []world.Stream{{Call: world.CallPost, Rate: rate / 2}, {Call: world.CallPost, Rate: rate / 2, Path: "/other"}}
	return world.Spec{
		Sidecar: sidecar, Protocol: row.protocol, TLS: row.tls, Grace: grace, Load: load,
		Duration: deletedAt + row.limit + time.Second,
		Envoy: world.Envoy{
			Count: row.envoys, Lag: lag, Policy: world.Policy{Active: row.check}, Rules: row.rules,
		},
		Events: deletePods(1),
	}
}
