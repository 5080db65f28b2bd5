package world_test

import (
	"encoding/json"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// What becomes of connections that come too late, where the application has no hold hook.

// unheld is a native sidecar without the hold hook.
func unheld(relay bool, args ...string) world.Sidecar {
	return world.Sidecar{Kind: world.Native, Relay: relay, Args: append(args, "--min", "0s")}
}

// inFlight tells whether a request was lost in an application that exited at once: no sidecar can save it.
func inFlight(f world.Failure, p world.Pod) bool {
	exit, _ := p.Find("app", world.MarkExit)
	return f.Flags == "UC" && f.At <= exit.At && f.At > exit.At-leeway
}

// TestLateConnectionsAreRefusedAtOnceOrRelayed: Envoy retries what is refused, so nothing is lost but what was in flight
// in the dying application; without a sidecar retries cannot save what vanishes in a timeout. C1
func TestLateConnectionsAreRefusedAtOnceOrRelayed(t *testing.T) {
	spec := world.Spec{
		App: world.App{PerRequest: true}, Load: []world.Stream{{Rate: 200}}, Duration: 12 * time.Second,
		Envoy: world.Envoy{Lag: 5 * time.Second, Policy: world.DefaultRetryPolicy()}, Events: deletePods(1),
	}
	for _, relay := range []bool{true, false} {
		t.Run(map[bool]string{true: "relay", false: "reset"}[relay], func(t *testing.T) {
			spec := spec
			spec.Sidecar = unheld(relay)
			r := run(t, spec)
			w := lastWords(t, r.Pods[0])
			lost := 0
			for _, f := range r.Load.Failures {
				switch {
				case inFlight(f, r.Pods[0]):
				case relay || f.Kind != "503" || f.Flags != "UF":
					t.Errorf("lost: %+v", f)
				default: // LEAST_REQUEST may choose the dead host for every try
					lost++
				}
			}
			// No answer but the first RST was waited for: a SYN is sent again after a second.
			if r.Load.Slowest > 900*time.Millisecond {
				t.Errorf("a request waited %v", r.Load.Slowest)
			}
			if relay && w.Relayed < 100 || !relay && w.Refused < 100 {
				t.Errorf("relayed %d, refused %d of about 300 late connections", w.Relayed, w.Refused)
			}
			if lost > w.Refused/4 {
				t.Errorf("%d lost in spite of retries, of %d refused", lost, w.Refused)
			}
			endsBy(t, r, 5*time.Second+quiet+leeway)
		})
	}
	t.Run("nothing", func(t *testing.T) {
		if n := run(t, spec).Load.Kinds()["timeout"]; n < 100 {
			t.Errorf("only %d timeouts", n)
		}
	})
}

// TestApplicationThatServesOnGetsEveryConnection: while it listens the port is never taken, and never refuses. When it
// leaves, in spite of the traffic, the relay follows. C7
func TestApplicationThatServesOnGetsEveryConnection(t *testing.T) {
	const lag = 13 * time.Second
	spec := world.Spec{
		App:   world.App{OnTerm: world.Serve, ServeFor: 10 * time.Second, PerRequest: true},
		Envoy: world.Envoy{Lag: lag}, Duration: deletedAt + lag + 2*time.Second, Events: deletePods(1),
	}
	t.Run("lameduck", func(t *testing.T) {
		spec := spec
		spec.Sidecar = unheld(true)
		spec.Events = append(deletePods(1), world.Event{At: deletedAt + 9500*time.Millisecond, Get: status(0)})
		r := run(t, spec)
		for _, f := range r.Load.Failures {
			if !inFlight(f, r.Pods[0]) {
				t.Errorf("lost: %+v", f)
			}
		}
		if s := statusIn(t, r.Answers[0]); s.Refused > 0 || s.Relay.Relayed > 0 || s.Phase != "draining" {
			t.Errorf("while the application served: %+v", s)
		}
		if w := lastWords(t, r.Pods[0]); w.Relayed == 0 {
			t.Error("nothing was relayed after the application")
		}
	})
	t.Run("nothing", func(t *testing.T) {
		if r := run(t, spec); len(r.Load.Failures) < rate/2 {
			t.Errorf("only %d requests lost", len(r.Load.Failures))
		}
	})
}

// TestPortThatDiedBeforeTheTriggerIsTakenAtOnce: an exec hook comes late, the application does not wait for it. What was
// refused meanwhile is counted. (Without lameduck: TestLateConnectionsAreRefusedAtOnceOrRelayed/nothing.) C28
func TestPortThatDiedBeforeTheTriggerIsTakenAtOnce(t *testing.T) {
	sidecar := unheld(true)
	sidecar.HookDelay = 400 * time.Millisecond
	r := run(t, world.Spec{
		Sidecar: sidecar, Envoy: world.Envoy{Lag: 3 * time.Second}, Duration: 7 * time.Second, Events: deletePods(1),
	})
	started := loggedAt(t, r, r.Pods[0], "phase=draining")
	taken := loggedAt(t, r, r.Pods[0], `msg="port taken"`)
	if exit, _ := r.Pods[0].Find("app", world.MarkExit); exit.At > started-200*time.Millisecond {
		t.Fatalf("the application left at %v, the drain started at %v: this shows nothing", exit.At, started)
	}
	if gap := taken - started; gap > 100*time.Millisecond { // the peers are asked first: 2 ms where nothing else runs
		t.Errorf("the port was taken %v after the trigger", gap)
	}
	refused := 0
	for _, f := range r.Load.Failures {
		switch {
		case inFlight(f, r.Pods[0]):
		case f.Flags == "UF" && f.At <= taken:
			refused++
		default:
			t.Errorf("lost: %+v", f)
		}
	}
	if w := lastWords(t, r.Pods[0]); refused == 0 || w.Refused < refused || w.Refused > refused+refused/2+3 {
		t.Errorf("the client saw %d refused, lameduck counted %d", refused, w.Refused)
	}
}

// state is lameduck's status, as far as the tests read it.
type state struct {
	Phase, Trigger string
	Holds          int
	Refused        int
	Connections    int
	Sources        []struct{ Address, Ignored string }
	Relay          struct {
		Relayed, Open, Failed, Looped, Checks int
		PeersAnswer                           int `json:"peers_answer"`
	}
}

// statusIn reads an answer of /status.
func statusIn(t *testing.T, a world.Answer) state {
	t.Helper()
	var s state
	if err := json.Unmarshal([]byte(a.Body), &s); err != nil {
		t.Fatalf("status %d: %v: %s", a.Status, err, a.Body)
	}
	return s
}
