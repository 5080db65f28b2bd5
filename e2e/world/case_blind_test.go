package world_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// What hides the pod's sockets from lameduck, or makes looking at them dear.

// TestLostEventsAreNotTakenForSilence: idle connections die by the thousand while lameduck gets no processor, and the
// kernel drops what it cannot queue. Nothing is concluded from the gap: quiet counts from its end. C19
func TestLostEventsAreNotTakenForSilence(t *testing.T) {
	// Of the longest queue that an unprivileged process may have, an event takes more than half a kilobyte.
	count := max(10_000, 2*sysctl(t, "net/core/rmem_max")/640)
	if count > 18_000 {
		t.Skipf("NOT SHOWN: net.core.rmem_max lets %d events wait, and no more connections can be had here", count)
	}
	const (
		lag    = time.Second
		frozen = deletedAt + 3*time.Second
		thawed = frozen + 1500*time.Millisecond
	)
	spec := world.Spec{
		Sidecar: holding("--min", "0s"), Envoy: world.Envoy{Lag: lag}, Duration: thawed + quiet + 2*time.Second,
		Crowd:  world.Crowd{Count: count, From: 0, Until: frozen + 200*time.Millisecond},
		Events: append(deletePods(1), world.Event{At: frozen, Freeze: &world.Freeze{For: thawed - frozen}}),
	}
	r := run(t, spec)
	lossless(t, r)
	endsBy(t, r, thawed-deletedAt+quiet+time.Second)
	if ended := deletedAt + endedAfter(t, r.Pods[0]); ended < thawed+quiet {
		t.Errorf("the pod ended at %v: %v after the gap", ended, ended-thawed)
	}
}

func sysctl(t *testing.T, name string) int {
	t.Helper()
	content, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRefusedSockDiagIsABoundedSleep: seccomp refuses the netlink socket, the rest is as ever. C31
func TestRefusedSockDiagIsABoundedSleep(t *testing.T) {
	const short, reserve = 15 * time.Second, 5 * time.Second
	spec := world.Spec{Grace: short, Envoy: world.Envoy{Lag: 3 * time.Second}, Duration: 14 * time.Second, Events: deletePods(1)}
	loudly := func(t *testing.T, r world.Result) {
		for _, said := range []string{"destroy events cannot be had", "the hold is a sleep"} {
			if !strings.Contains(r.Pods[0].Log, said) {
				t.Errorf("the log does not say %q", said)
			}
		}
		if !strings.Contains(string(r.Pods[0].LastWords), "operation not permitted") {
			t.Errorf("last words: %s", r.Pods[0].LastWords)
		}
	}
	t.Run("hold", func(t *testing.T) {
		spec := spec
		spec.Sidecar = holding("--min", "0s")
		spec.Sidecar.NoSockDiag = true
		r := run(t, spec)
		lossless(t, r)
		endsBy(t, r, short-reserve+time.Second)
		if ended := endedAfter(t, r.Pods[0]); ended < short-reserve {
			t.Errorf("ended after %v: nothing told that it was quiet", ended)
		}
		loudly(t, r)
	})
	t.Run("takeover", func(t *testing.T) {
		spec := spec
		spec.Sidecar, spec.App = unheld(true), world.App{OnTerm: world.Serve, ServeFor: time.Second}
		spec.Sidecar.NoSockDiag = true
		r := run(t, spec)
		for _, f := range r.Load.Failures {
			if !inFlight(f, r.Pods[0]) {
				t.Errorf("lost: %+v", f)
			}
		}
		if w := lastWords(t, r.Pods[0]); w.Relayed == 0 {
			t.Error("nothing was relayed")
		}
		endsBy(t, r, short+leeway)
		loudly(t, r)
	})
	// The application is gone before the trigger and nobody heard: the pod stays for as long as a sleep all the same.
	t.Run("application gone before the trigger", func(t *testing.T) {
		spec := spec
		spec.Sidecar = unheld(true)
		spec.Sidecar.NoSockDiag, spec.Sidecar.HookDelay = true, 400*time.Millisecond
		r := run(t, spec)
		if n := r.Load.Kinds()["timeout"]; n > 0 {
			t.Errorf("%d timeouts: the pod did not stay", n)
		}
		endsBy(t, r, short+leeway)
		loudly(t, r)
	})
	t.Run("nothing", func(t *testing.T) {
		if n := run(t, spec).Load.Kinds()["timeout"]; n < rate/2 {
			t.Errorf("only %d timeouts", n)
		}
	})
}

// TestWatchingCostsTwoPercentOfACoreAtMost: a dump walks every TCP socket of the machine, and there are 90,000 of them.
// It runs alone: they make every lameduck's dump as dear. Without a relay: its bind attempts cost the same on any node. C30
func TestWatchingCostsTwoPercentOfACoreAtMost(t *testing.T) {
	const from, until = deletedAt + time.Second, deletedAt + 21*time.Second
	r := runAlone(t, world.Spec{
		Sidecar: world.Sidecar{Kind: world.Native, Hold: true}, Foreign: 90_000, Grace: 40 * time.Second,
		Load: []world.Stream{{Rate: 30}}, Duration: until + time.Second, Envoy: world.Envoy{Lag: 22 * time.Second},
		Events: append(deletePods(1),
			world.Event{At: from, Measure: []int{0, 1}}, world.Event{At: until, Measure: []int{0, 1}},
			world.Event{At: until, Get: status(0)}),
	})
	lossless(t, r)
	if s := statusIn(t, r.Answers[0]); s.Phase != "draining" {
		t.Fatalf("at the end of the measurement: %+v", s)
	}
	var used [2]time.Duration
	for _, u := range r.Usages {
		if u.At < until {
			used[u.Pod] -= u.CPU
		} else {
			used[u.Pod] += u.CPU
		}
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / (until - from).Seconds() }
	t.Logf("draining: %.2f %% of a core; serving: %.3f %%", percent(used[0]), percent(used[1]))
	if share := percent(used[0]); share > 2 || share < 0.5 { // the dumps alone, on a machine with so many sockets
		t.Errorf("lameduck used %.2f %% of a core", share)
	}
}
