package world_test

import (
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// Where a relay's peers die, lead back, or are too few descriptors away.

// TestDyingPeersCostAtMostOneRequestEach: two of three pods end together and are each other's peers. C16
func TestDyingPeersCostAtMostOneRequestEach(t *testing.T) {
	spec := world.Spec{
		App: world.App{OnTerm: world.Graceful}, Envoy: world.Envoy{Lag: 3 * time.Second}, Duration: 9 * time.Second,
		Events: deletePods(2),
	}
	t.Run("lameduck", func(t *testing.T) {
		spec := spec
		spec.Sidecar = unheld(true)
		r := run(t, spec)
		dying := map[string]world.Pod{}
		for _, p := range r.Pods[:2] {
			dying[p.Address.String()] = p
			if w := lastWords(t, p); w.Relayed == 0 {
				t.Errorf("%s relayed nothing", p.Name)
			}
		}
		lost := 0
		for _, f := range r.Load.Failures {
			at, _, _ := strings.Cut(f.Upstream, ":")
			if f.Flags == "UF" && f.At <= trigger(t, dying[at])+leeway/10 {
				continue // refused before the trigger, which is no peer's fault
			}
			lost++
		}
		if lost > 2 || r.Load.Slowest > time.Second {
			t.Errorf("%d lost, the slowest took %v", lost, r.Load.Slowest)
		}
		endsBy(t, r, 3*time.Second+quiet+leeway)
	})
	t.Run("nothing", func(t *testing.T) {
		if r := run(t, spec); len(r.Load.Failures) < rate {
			t.Errorf("only %d requests lost", len(r.Load.Failures))
		}
	})
}

// TestWithoutALivePeerTheKernelRefuses: the last peer dies while the first pod relays to it, and both have but each other.
// C17
func TestWithoutALivePeerTheKernelRefuses(t *testing.T) {
	const short = 14 * time.Second
	second := deletedAt + 4*time.Second
	spec := world.Spec{
		Pods: 2, Grace: short, Duration: deletedAt + 11*time.Second, App: world.App{OnTerm: world.Graceful},
		Envoy:  world.Envoy{Lag: world.Never},
		Events: []world.Event{{At: deletedAt, Delete: []int{0}}, {At: second, Delete: []int{1}}},
	}
	t.Run("lameduck", func(t *testing.T) {
		spec := spec
		spec.Sidecar = unheld(true)
		spec.Events = append(spec.Events, world.Event{At: second + 3*time.Second, Get: status(0)})
		r := run(t, spec)
		refused := 0
		for _, f := range r.Load.Failures {
			switch {
			case f.Kind != "503":
				t.Errorf("lost: %+v", f)
			// Dead peers are found out within a second, the probes' pace: from then on only the kernel answers.
			case f.At > second+2*time.Second && f.Flags != "UF":
				t.Errorf("accepted with nobody to pass it on to: %+v", f)
			case f.At > second+2*time.Second:
				refused++
			}
		}
		if r.Load.Slowest > time.Second {
			t.Errorf("a request hung for %v", r.Load.Slowest)
		}
		if sent := int((spec.Duration - second - 2*time.Second) / time.Second * rate); refused < sent*9/10 {
			t.Errorf("only %d of %d were refused with no backend alive", refused, sent)
		}
		if s := statusIn(t, r.Answers[0]); s.Relay.Open > 2 || s.Relay.PeersAnswer > 0 || s.Relay.Looped > 20 {
			t.Errorf("a loop, or a peer that is none: %+v", s.Relay)
		}
		endsBy(t, r, short+leeway)
	})
	t.Run("nothing", func(t *testing.T) {
		spec := spec
		spec.Duration = second + 2*time.Second
		if n := run(t, spec).Load.Kinds()["timeout"]; n < rate {
			t.Errorf("only %d timeouts", n)
		}
	})
}

// TestRelayToTheOwnServiceDoesNotLoop: the Service's only endpoint is the dying pod itself, behind the kernel's NAT. (With
// no other endpoint nothing can be saved; without lameduck: TestWithoutALivePeerTheKernelRefuses/nothing.) C32
func TestRelayToTheOwnServiceDoesNotLoop(t *testing.T) {
	sidecar := unheld(false)
	sidecar.RelayToService = true
	r := run(t, world.Spec{
		Pods: 1, Sidecar: sidecar, App: world.App{OnTerm: world.Serve, ServeFor: 2 * time.Second, PerRequest: true},
		Envoy: world.Envoy{Lag: 6 * time.Second}, Duration: 10 * time.Second,
		Events: append(deletePods(1),
			world.Event{At: deletedAt + 1500*time.Millisecond, Get: status(0)},
			world.Event{At: deletedAt + 4*time.Second, Get: status(0)},
		),
	})
	if s := statusIn(t, r.Answers[0]); s.Relay.PeersAnswer != 1 {
		t.Fatalf("the Service does not lead to the application: %+v", s.Relay)
	}
	s := statusIn(t, r.Answers[1])
	if s.Relay.Looped == 0 || s.Relay.Looped > 20 || s.Relay.Open > 0 || s.Relay.PeersAnswer > 0 {
		t.Errorf("%+v", s.Relay)
	}
	exit, _ := r.Pods[0].Find("app", world.MarkExit)
	wrong := 0
	for _, f := range r.Load.Failures {
		// From the lag's end on Envoy has no pod, and says so (UH).
		if f.At < exit.At-leeway || f.Took > time.Second || f.At > exit.At+1500*time.Millisecond && f.Flags != "UF" && f.Flags != "UH" {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d requests were not refused by the kernel", wrong)
	}
	endsBy(t, r, 6*time.Second+quiet+leeway)
}

// TestRelayLivesWithinItsLimitOfOpenFiles: 2,000 connections come at once, each with a request that takes its time. What
// the limit has no room for waits in the backlog, and all are served. C24
func TestRelayLivesWithinItsLimitOfOpenFiles(t *testing.T) {
	const (
		many = 2000
		from = deletedAt + 2*time.Second
		over = 500 * time.Millisecond
	)
	for _, c := range []struct {
		name        string
		files       world.FileLimit
		takes       time.Duration
		least, most int // connections open at once
	}{
		// Six descriptors a relayed connection at the most; the surface, probes and all else have their part too.
		{"hard limit 1024", world.FileLimit{Soft: 1024, Hard: 1024}, time.Second, 80, (1024 - 64) / 6},
		{"soft limit 1024, hard 16384", world.FileLimit{Soft: 1024, Hard: 16384}, 3 * time.Second, many * 3 / 4, many + 10},
	} {
		spec := world.Spec{
			App: world.App{OnTerm: world.Graceful}, Grace: 50 * time.Second, Duration: 8 * time.Second,
			Load: []world.Stream{{Rate: 10}, {
				Name: "many", Direct: true, Rate: many / over.Seconds(), From: from, Until: from + over,
				Delay: c.takes, Timeout: 40 * time.Second,
			}},
			Envoy: world.Envoy{Lag: time.Second}, Events: deletePods(1),
		}
		t.Run(c.name+"/lameduck", func(t *testing.T) {
			spec := spec
			spec.Sidecar = unheld(true)
			spec.Sidecar.Files = c.files
			for i := range 20 {
				spec.Events = append(spec.Events, world.Event{At: from + time.Duration(i)*250*time.Millisecond, Get: status(0)})
			}
			r := run(t, spec)
			for _, f := range r.Load.Failures {
				if f.Stream == "many" {
					t.Errorf("lost: %+v", f)
				}
			}
			open := 0
			for _, a := range r.Answers {
				open = max(open, statusIn(t, a).Relay.Open)
			}
			if open < c.least || open > c.most {
				t.Errorf("%d connections were relayed at once, not %d to %d", open, c.least, c.most)
			}
			waits := strings.Contains(r.Pods[0].Log, "no more connections are accepted until others end")
			if waits != (c.most < many) {
				t.Errorf("the log says that some have to wait: %v", waits)
			}
			if w := lastWords(t, r.Pods[0]); w.Relayed < many {
				t.Errorf("relayed %d", w.Relayed)
			}
			t.Logf("%d at once, the slowest after %v", open, r.Load.Slowest)
		})
	}
}
