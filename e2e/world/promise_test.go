package world_test

import (
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// The world's own promises, without lameduck: it shows the fault that lameduck mends.

func TestDeadAddressSwallowsRequestsUntilEnvoyHearsOfIt(t *testing.T) {
	const lag = 3 * time.Second
	r := run(t, world.Spec{Duration: 7 * time.Second, Envoy: world.Envoy{Lag: lag}, Events: deletePods(1)})
	// A third of what was sent meanwhile: 100. A busy machine changes the share, not the fault.
	if n := r.Load.Kinds()["timeout"]; n < rate*3/6 {
		t.Errorf("%d timeouts", n)
	}
	for _, f := range r.Load.Failures {
		if f.At < deletedAt-time.Second/2 || f.At > deletedAt+lag+time.Second/2 {
			t.Errorf("a failure at %v, outside the lag: %+v", f.At, f)
		}
		if f.Kind == "timeout" && (f.Flags != "DC" || !strings.HasPrefix(f.Upstream, "10.1.0.10:")) {
			t.Errorf("not told from Envoy's log: %+v", f)
		}
	}
	if ended := endedAfter(t, r.Pods[0]); ended > 500*time.Millisecond {
		t.Errorf("the pod ended after %v", ended)
	}
}

func TestStuckRequestsHoldNoOtherBack(t *testing.T) {
	r := run(t, world.Spec{Duration: 6 * time.Second, Envoy: world.Envoy{Lag: world.Never}, Events: deletePods(3)})
	if want := 6 * rate; r.Load.Sent != want {
		t.Errorf("%d sent, not %d", r.Load.Sent, want)
	}
	if n := len(r.Load.Failures); n < 3*rate {
		t.Errorf("only %d failed with no backend alive", n)
	}
}

func TestAddressOnALinkFailsAfterSeconds(t *testing.T) {
	r := run(t, world.Spec{
		Duration: 5 * time.Second, Gone: world.Unreachable, Envoy: world.Envoy{Lag: 2 * time.Second}, Events: deletePods(1),
	})
	var slowest time.Duration
	unreachable := 0
	for _, f := range r.Load.Failures {
		// A busy kernel drops part of what waited for ARP without a word (neigh_invalidate): those time out.
		if f.Kind == "503" && f.Flags == "UF" {
			unreachable++
			slowest = max(slowest, f.Took)
		}
	}
	if unreachable < rate/10 || slowest < 2*time.Second {
		t.Errorf("%d of %v failed as unreachable, the slowest after %v", unreachable, r.Load.Kinds(), slowest)
	}
}

func TestReusedAddressAnswersWithAnotherService(t *testing.T) {
	r := run(t, world.Spec{
		Duration: 5 * time.Second, Gone: world.Reused, Envoy: world.Envoy{Lag: 2 * time.Second}, Events: deletePods(1),
	})
	if n := r.Load.Kinds()["stranger"]; n < rate/3 {
		t.Errorf("%d answers of another service", n)
	}
}

func TestSleepingHookLosesNothingAndHoldsThePodAllTheWhile(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		t.Run(map[bool]string{false: "IPv4", true: "IPv6"}[ipv6], func(t *testing.T) {
			r := run(t, world.Spec{
				Duration: 9 * time.Second, IPv6: ipv6, PreStopSleep: 5 * time.Second,
				Envoy: world.Envoy{Lag: 2 * time.Second}, Events: deletePods(1),
			})
			if len(r.Load.Failures) > 0 {
				t.Errorf("%d failed", len(r.Load.Failures))
			}
			if ended := endedAfter(t, r.Pods[0]); ended < 5*time.Second || ended > 6500*time.Millisecond {
				t.Errorf("the pod ended after %v", ended)
			}
			if !strings.Contains(r.Pods[0].Address.String(), map[bool]string{false: ".", true: ":"}[ipv6]) {
				t.Errorf("the endpoint is %v", r.Pods[0].Address)
			}
		})
	}
}

func TestDrainingHostGetsNoNewRequests(t *testing.T) {
	r := run(t, world.Spec{
		Duration: 8 * time.Second, PreStopSleep: 4 * time.Second,
		Envoy: world.Envoy{Lag: time.Second, Draining: true}, Events: deletePods(1),
	})
	if len(r.Load.Failures) > 0 {
		t.Errorf("%d failed", len(r.Load.Failures))
	}
	// It served a third of the requests of 3 s: 100; of the 6 s that it lived it would have been 200.
	if served := r.Pods[0].Served; served > rate*3*2/3 {
		t.Errorf("the draining pod served %d requests", served)
	}
}

func TestFailedHealthCheckTakesAHostOut(t *testing.T) {
	spec := world.Spec{
		Duration: 12 * time.Second,
		Envoy: world.Envoy{Lag: world.Never, Policy: world.Policy{
			Active: &world.Active{Path: "/healthz", Interval: time.Second, Timeout: time.Second},
		}},
		Events: deletePods(1),
	}
	r := run(t, spec)
	if len(r.Load.Failures) == 0 {
		t.Error("nothing failed before the checks did")
	}
	// Three checks of a second each, a second apart, fail the host.
	for _, f := range r.Load.Failures {
		if f.At > deletedAt+8*time.Second {
			t.Errorf("a failure long after the checks: %+v", f)
		}
	}
}

func TestRetryAfterARefusedConnectionIsCountedOnce(t *testing.T) {
	// The application leaves at once, its namespace lives on for the sidecar's sake: the kernel refuses.
	r := run(t, world.Spec{
		Duration: 6 * time.Second, Sidecar: world.Sidecar{Kind: world.Native, Args: []string{"--min", "0s", "--quiet", "1s"}},
		Envoy:  world.Envoy{Lag: 2 * time.Second, Policy: world.DefaultRetryPolicy()},
		Events: deletePods(1),
	})
	if r.Pods[0].Refused == 0 {
		t.Error("the pod's kernel refused nothing")
	}
	if r.Load.Kinds()["timeout"] > 0 {
		t.Errorf("timeouts with a living namespace: %v", r.Load.Kinds())
	}
	if r.Replayed > 0 {
		t.Errorf("%d requests reached applications twice", r.Replayed)
	}
}

func TestEveryEnvoyTakesItsShare(t *testing.T) {
	r := run(t, world.Spec{Duration: 3 * time.Second, Envoy: world.Envoy{Count: 2}, App: world.App{PerRequest: true}})
	if len(r.Load.Failures) > 0 {
		t.Errorf("%d failed", len(r.Load.Failures))
	}
	for _, p := range r.Pods {
		if p.Served < 3*rate/6 {
			t.Errorf("%s served %d of %d", p.Name, p.Served, r.Load.Sent)
		}
	}
}
