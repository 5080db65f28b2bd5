package world_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// The world's own promises of health checks, without lameduck's doing but where a test names it.

func TestEnvoyChecksAsItsPolicySays(t *testing.T) {
	const interval, duration = 500 * time.Millisecond, 4 * time.Second
	for _, kind := range []world.CheckKind{world.CheckHTTP1, world.CheckHTTP2, world.CheckGRPC, world.CheckTCP} {
		for _, tls := range []bool{false, true} {
			name := map[world.CheckKind]string{world.CheckHTTP1: "http"}[kind] + string(kind)
			protocol := world.HTTP2
			switch kind {
			case world.CheckHTTP1: // a TLS connection of an HTTP/2 cluster's would speak HTTP/2
				protocol = world.HTTP1
			case world.CheckGRPC:
				protocol = world.GRPC
			}
			t.Run(name+map[bool]string{true: " in TLS"}[tls], func(t *testing.T) {
				r := run(t, world.Spec{
					Protocol: protocol, TLS: tls, Pods: 1, Duration: duration, Load: []world.Stream{{Rate: 10}},
					Envoy: world.Envoy{Watch: true, Policy: world.Policy{
						Active: &world.Active{Kind: kind, Interval: interval, Jitter: interval / 5, Fresh: tls},
					}},
				})
				lossless(t, r)
				checks, most := r.Pods[0].Checks, int((duration+time.Second)/interval)+4 // two of them before the load
				if kind == world.CheckTCP {
					most = 0
				}
				if checks < most/2 || checks > most {
					t.Errorf("%d checks in %v, one each %v", checks, duration, interval)
				}
				if got := states(r, proxy, 0); !slices.Equal(got, []string{"healthy"}) {
					t.Errorf("Envoy's view: %v", got)
				}
			})
		}
	}
}

// TestCheckOfTheSidecarsPortHidesTheHostFromItsOwnRuleOnly: the rule without checks never learns.
func TestCheckOfTheSidecarsPortHidesTheHostFromItsOwnRuleOnly(t *testing.T) {
	r := run(t, world.Spec{
		Sidecar: holding(), Duration: 6 * time.Second, Load: []world.Stream{{Rate: rate}, {Name: "checked", Rate: rate, Path: "/checked"}},
		Envoy: world.Envoy{Lag: world.Never, Watch: true, Rules: []world.Rule{{
			Prefix: "/checked", Policy: world.Policy{Active: &world.Active{Port: adminPort}},
		}}},
		Events: []world.Event{{At: deletedAt, Drain: []int{0}}},
	})
	lossless(t, r)
	if got := states(r, proxy, 0); !slices.Equal(got, []string{"healthy"}) {
		t.Errorf("without checks: %v", got)
	}
	got := states(r, "rule-0", 0)
	if len(got) < 2 || !strings.Contains(got[1], "failed_active_health_check") {
		t.Errorf("with checks: %v", got)
	}
	for _, v := range r.Views {
		if v.Cluster == "rule-0" && v.Pod == 0 && strings.Contains(v.State, "failed_active_health_check") && v.At > deletedAt+2*time.Second {
			t.Errorf("it took until %v", v.At)
		}
	}
	if r.Pods[0].Served == 0 || r.Pods[0].Checks > 0 {
		t.Errorf("the application served %d and was checked %d times", r.Pods[0].Served, r.Pods[0].Checks)
	}
}

// TestRemovedHostThatPassesItsChecksStaysWhereEnvoyIsToldSo: ignore_health_on_host_removal off and on.
func TestRemovedHostThatPassesItsChecksStaysWhereEnvoyIsToldSo(t *testing.T) {
	for _, keep := range []bool{true, false} {
		t.Run(map[bool]string{true: "kept", false: "ignored"}[keep], func(t *testing.T) {
			r := run(t, world.Spec{
				PreStopSleep: 4 * time.Second, Duration: 5 * time.Second,
				Envoy: world.Envoy{Lag: time.Second, Watch: true, Policy: world.Policy{
					KeepRemoved: keep, Active: &world.Active{Interval: 500 * time.Millisecond},
				}},
				Events: deletePods(1),
			})
			got := states(r, proxy, 0)
			pending := slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "pending_dynamic_removal") })
			if pending != keep {
				t.Errorf("Envoy's view: %v", got)
			}
			if removed := slices.Contains(got, "removed"); removed == keep {
				t.Errorf("removed while it passed its checks: %v", removed)
			}
		})
	}
}

// TestPanickingEnvoySendsToHostsThatFailTheirChecks: one of one pods is in a drain that its checks tell of.
func TestPanickingEnvoySendsToHostsThatFailTheirChecks(t *testing.T) {
	for name, threshold := range map[string]float64{"panic": 0, "no panic": world.NoPanic} {
		t.Run(name, func(t *testing.T) {
			r := run(t, world.Spec{
				Pods: 1, Sidecar: holding(), Duration: 5 * time.Second,
				Envoy: world.Envoy{Lag: world.Never, Policy: world.Policy{
					PanicBelow: threshold, Active: &world.Active{Port: adminPort, Interval: 500 * time.Millisecond},
				}},
				Events: []world.Event{{At: time.Second, Drain: []int{0}}},
			})
			failed := r.Load.Kinds()["503"]
			if threshold == 0 && failed > 0 || threshold != 0 && failed < 2*rate {
				t.Errorf("%d requests failed", failed)
			}
		})
	}
}

// TestDrainingHostLeavesTheListOnlyAfterItsPod is Envoy Gateway ≥ 1.3's way. Its checks go on all the while.
func TestDrainingHostLeavesTheListOnlyAfterItsPod(t *testing.T) {
	r := run(t, world.Spec{
		Duration: 9 * time.Second, PreStopSleep: 4 * time.Second,
		Envoy: world.Envoy{Lag: time.Second, Draining: true, Watch: true, Policy: world.Policy{
			Active: &world.Active{Interval: 500 * time.Millisecond},
		}},
		Events: deletePods(1),
	})
	lossless(t, r)
	gone, _ := r.Pods[0].Find("", world.MarkGone)
	removed := false
	for _, v := range r.Views {
		if v.Pod == 0 && v.State == "removed" {
			removed = v.At > gone.At
		}
	}
	if got := states(r, proxy, 0); !removed || len(got) < 2 || got[1] != "eds_health_status=DRAINING" {
		t.Errorf("Envoy's view: %v", got)
	}
	if r.Pods[0].Checks < 10 {
		t.Errorf("only %d checks", r.Pods[0].Checks)
	}
}

// proxy is the cluster of the first rule.
const proxy = "backends"

// states is how the first Envoy's view of a pod changed.
func states(r world.Result, cluster string, pod int) []string {
	var all []string
	for _, v := range r.Views {
		if v.Envoy == 0 && v.Cluster == cluster && v.Pod == pod {
			all = append(all, v.State)
		}
	}
	return all
}
