package world_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// tools are what TestMain built.
var tools world.Tools

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("worlds take minutes: skipped by -short")
		return
	}
	// Worlds mostly wait: more of them fit than there are processors.
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("5")
	}
	var err error
	if tools, err = world.Prepare(context.Background(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// rate is the tests' load: less than the demo's, since several worlds share the machine.
const rate = 100

// run runs a world beside those of other tests; a test that fails tells what happened in it.
func run(t *testing.T, spec world.Spec) world.Result {
	t.Helper()
	t.Parallel()
	return runAlone(t, spec)
}

// runAlone runs a world while no other test's runs, unless the test has said that it may run beside others.
func runAlone(t *testing.T, spec world.Spec) world.Result {
	t.Helper()
	spec.Name = t.Name()
	if len(spec.Load) == 0 {
		spec.Load = []world.Stream{{Rate: rate}}
	}
	result, err := tools.Run(t.Context(), spec, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(describe(result))
		}
	})
	return result
}

// describe tells a run's story.
func describe(r world.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "sent %d, failed %v, p99 %v, slowest %v, replayed %d\n",
		r.Load.Sent, r.Load.Kinds(), r.Load.P99, r.Load.Slowest, r.Replayed)
	for i, f := range r.Load.Failures {
		if i == 10 {
			b.WriteString("  ...\n")
			break
		}
		fmt.Fprintf(&b, "  %+v\n", f)
	}
	for _, p := range r.Pods {
		if len(p.Marks) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s served %d, refused %d\n", p.Name, p.Served, p.Refused)
		for _, m := range p.Marks {
			fmt.Fprintf(&b, "  %8.3fs %s %s %s\n", m.At.Seconds(), m.Container, m.What, m.Detail)
		}
		fmt.Fprintf(&b, "%s\n", p.Log)
	}
	return b.String()
}

// deletedAt is when the tests delete pods, unless they say otherwise.
const deletedAt = 2 * time.Second

// deletePods deletes the first n pods together.
func deletePods(n int) []world.Event {
	e := world.Event{At: deletedAt}
	for i := range n {
		e.Delete = append(e.Delete, i)
	}
	return []world.Event{e}
}

// endedAfter is the time from a pod's deletion to its end; the test fails if it never ended.
func endedAfter(t *testing.T, p world.Pod) time.Duration {
	t.Helper()
	d, ok := p.EndedAfter()
	if !ok {
		t.Fatalf("%s did not end", p.Name)
	}
	return d
}
