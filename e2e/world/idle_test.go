package world_test

import (
	"os/exec"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// idleCalls is the most that may be seen in idleFor: the runtime looks at itself once in a minute or two (forced garbage
// collection, runtime/proc.go); whatever comes each 5 s would show.
const idleCalls = 5

// idleFrom leaves lameduck the time to have started up: its last start-up work is not idling.
const idleFrom, idleFor = 3 * time.Second, 30 * time.Second

// TestIdleLameduckMakesNoCallOfItsOwn: the application is under load, a connection a request, and is probed. One pod's
// lameduck is looked at by strace; another's, which strace does not disturb, by the scheduler's count of its sleeps.
func TestIdleLameduckMakesNoCallOfItsOwn(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("NOT SHOWN, for want of strace (Debian's package strace): that an idle lameduck makes no system call of its own")
	}
	r := run(t, world.Spec{
		Sidecar: holding(), App: world.App{PerRequest: true}, Probes: true, Duration: idleFrom + idleFor + time.Second,
		Events: []world.Event{
			{At: idleFrom, Trace: &world.Trace{Pod: 0, For: idleFor}},
			{At: idleFrom, Measure: []int{1}}, {At: idleFrom + idleFor, Measure: []int{1}},
		},
	})
	lossless(t, r)
	if r.Calls == nil || len(r.Usages) != 2 {
		t.Fatalf("not measured: %v, %v", r.Calls, r.Usages)
	}
	calls := 0
	for _, n := range r.Calls {
		calls += n
	}
	before, after := r.Usages[0], r.Usages[1]
	if before.At > after.At {
		before, after = after, before
	}
	sleeps := after.Switches - before.Switches
	t.Logf("in %v: %d system calls %v; %d sleeps, %v of a processor", idleFor, calls, r.Calls, sleeps, after.CPU-before.CPU)
	if calls > idleCalls {
		t.Errorf("%d system calls: %v", calls, r.Calls)
	}
	if sleeps > idleCalls {
		t.Errorf("%d sleeps", sleeps)
	}
}

// BenchmarkIdleMemory tells the resident memory of a serving lameduck: anonymous, which is its own, and of files, which
// is its binary's and shared by all pods of a node.
func BenchmarkIdleMemory(b *testing.B) {
	for b.Loop() {
		r, err := tools.Run(b.Context(), world.Spec{
			Name: b.Name(), Pods: 1, Sidecar: holding(), Load: []world.Stream{{Rate: rate}}, Duration: idleFrom + time.Second,
			Events: []world.Event{{At: idleFrom, Measure: []int{0}}},
		}, b.Output())
		if err != nil {
			b.Fatal(err)
		}
		if len(r.Usages) != 1 {
			b.Fatalf("not measured: %v", r.Usages)
		}
		const mib = 1 << 20
		b.ReportMetric(float64(r.Usages[0].Anonymous)/mib, "MiB-anonymous")
		b.ReportMetric(float64(r.Usages[0].File)/mib, "MiB-file")
	}
	b.ReportMetric(0, "ns/op")
}
