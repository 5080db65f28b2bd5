package world_test

import (
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// The cases of people who lost traffic when pods ended, by their numbers; those that need a kernel or a clock alone are
// tested beside the code. Where a case hangs on what reaches the dying pod, Envoy knows of no other (Fresh).

// until sends the tests' load until a moment.
func until(end time.Duration) []world.Stream {
	return []world.Stream{{Rate: rate, Until: end}}
}

// quietFromTrigger is when a pod ends whose last request came before its deletion: quiet after the trigger, which an
// exec hook brings 440 ms late at the most.
const quietFromTrigger = quiet + 440*time.Millisecond + leeway

func TestC1LateConnectionsAreRefusedAtOnceAndRetriedOrRelayed(t *testing.T) {
	for name, relay := range map[string]bool{"relay": true, "reset": false} {
		t.Run(name, func(t *testing.T) {
			r := run(t, world.Spec{
				App: world.App{PerRequest: true}, Load: []world.Stream{{Rate: 200}}, Duration: 14 * time.Second,
				Sidecar: world.Sidecar{Kind: world.Native, Relay: relay, Args: []string{"--min", "0s"}},
				Envoy:   world.Envoy{Lag: 5 * time.Second, Policy: world.DefaultRetryPolicy()}, Events: deletePods(1),
			})
			if r.Load.Slowest > time.Second {
				t.Errorf("a request waited %v", r.Load.Slowest)
			}
			for _, f := range r.Load.Failures {
				if f.Flags == "UC" && f.At < deletedAt+500*time.Millisecond {
					continue // in flight in the application that exited
				}
				if relay || f.Kind == "timeout" {
					t.Errorf("lost: %+v", f)
				}
			}
		})
	}
}

func TestC2IdlePooledConnectionsDoNotHold(t *testing.T) {
	r := run(t, world.Spec{
		Sidecar: holding("--min", "0s"), Load: until(deletedAt - time.Second/2), Duration: 10 * time.Second,
		Envoy: world.Envoy{Lag: 200 * time.Millisecond, Draining: true}, Events: deletePods(1),
	})
	lossless(t, r)
	endsBy(t, r, quietFromTrigger)
}

func TestC3HealthChecksOfADrainingHostDoNotHold(t *testing.T) {
	r := run(t, world.Spec{
		Sidecar: holding("--min", "0s"), Load: until(deletedAt - time.Second/2), Duration: 12 * time.Second,
		Envoy: world.Envoy{Lag: 200 * time.Millisecond, Draining: true, Policy: world.Policy{
			Active: &world.Active{Path: "/healthz", Interval: 3 * time.Second, Timeout: time.Second},
		}},
		Events: deletePods(1),
	})
	lossless(t, r)
	// Three checks, 3 s apart, at the latest, and the first may come 3 s after the trigger.
	endsBy(t, r, 4*3*time.Second)
}

func TestC4ScraperFromElsewhereDoesNotHold(t *testing.T) {
	r := run(t, world.Spec{
		Sidecar: holding("--min", "0s", "--envoy", "10.2.0.0/16"), Duration: 10 * time.Second,
		Load: []world.Stream{{Rate: rate, Until: deletedAt - time.Second/2}, {
			Name: "scraper", Rate: 1, Path: "/metrics", Direct: true, Until: deletedAt + 4*time.Second,
		}},
		Envoy: world.Envoy{Lag: time.Second}, Events: deletePods(1),
	})
	lossless(t, r)
	endsBy(t, r, quietFromTrigger)
}

func TestC5ProbesDoNotHold(t *testing.T) {
	r := run(t, world.Spec{
		Probes: true, Sidecar: holding("--min", "0s"), Load: until(deletedAt - time.Second/2), Duration: 10 * time.Second,
		Envoy: world.Envoy{Lag: time.Second}, Events: deletePods(1),
	})
	lossless(t, r)
	endsBy(t, r, quietFromTrigger)
}

func TestC6LivenessRestartDoesNotDrain(t *testing.T) {
	healthz := &world.Get{Pod: 0, Port: 8420, Path: "/healthz"}
	r := run(t, world.Spec{
		Sidecar: holding(), Duration: 12 * time.Second,
		Events: []world.Event{
			{At: deletedAt, Restart: []int{0}},
			{At: deletedAt + 3*time.Second, Get: healthz},
			{At: deletedAt + 8*time.Second, Get: healthz},
			{At: deletedAt + 9*time.Second, Get: &world.Get{Pod: 0, Port: 8420, Path: "/status"}},
		},
	})
	started, _ := r.Pods[0].Find("app", world.MarkHookStart)
	ended, ok := r.Pods[0].Find("app", world.MarkHookEnd)
	if held := ended.At - started.At; !ok || held > 5500*time.Millisecond {
		t.Errorf("the hook held the restart for %v", held)
	}
	if _, ok := r.Pods[0].Find("app", world.MarkStarted); !ok {
		t.Error("the application was not started again")
	}
	for _, a := range r.Answers {
		if a.Status != 200 {
			t.Errorf("lameduck answered %+v", a)
		}
	}
	if status := r.Answers[len(r.Answers)-1].Body; !strings.Contains(status, `"serving"`) {
		t.Errorf("after the restart lameduck is not serving: %s", status)
	}
	// While it restarts, and only then, its connections are refused.
	for _, f := range r.Load.Failures {
		if f.At < ended.At-leeway || f.At > ended.At+time.Second {
			t.Errorf("lost beside the restart: %+v", f)
		}
	}
}

func TestC7NoConnectionIsRefusedWhileTheAppServes(t *testing.T) {
	r := run(t, world.Spec{
		App:     world.App{OnTerm: world.Serve, ServeFor: 10 * time.Second, PerRequest: true},
		Sidecar: world.Sidecar{Kind: world.Native, Relay: true, Args: []string{"--min", "0s"}},
		Envoy:   world.Envoy{Lag: 6 * time.Second}, Duration: 14 * time.Second, Events: deletePods(1),
	})
	lossless(t, r)
	if r.Pods[0].Refused > 0 {
		t.Errorf("the kernel sent %d RSTs", r.Pods[0].Refused)
	}
	if w := lastWords(t, r.Pods[0]); w.Relayed > 0 || w.Refused > 0 {
		t.Errorf("relayed %d and refused %d while the application served", w.Relayed, w.Refused)
	}
}

func TestC8AppThatIgnoresSIGTERMIsOutlivedByNobody(t *testing.T) {
	const short = 12 * time.Second
	r := run(t, world.Spec{
		App: world.App{OnTerm: world.Ignore}, Grace: short, Duration: short,
		Sidecar: world.Sidecar{Kind: world.Plain, Relay: true}, Envoy: world.Envoy{Lag: time.Second}, Events: deletePods(1),
	})
	lossless(t, r)
	endsBy(t, r, short+leeway)
	if w := lastWords(t, r.Pods[0]); w.Reason != "deadline" {
		t.Errorf("reason %q", w.Reason)
	}
}

// TestC10C25RequestInFlightIsAwaited: an owed answer holds, however long its connection has been silent.
func TestC10C25RequestInFlightIsAwaited(t *testing.T) {
	for name, c := range map[string]struct{ takes, grace time.Duration }{
		"C25 12 s": {12 * time.Second, 30 * time.Second}, "C10 45 s": {45 * time.Second, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, world.Spec{
				Sidecar: world.Sidecar{Kind: world.Native, Hold: true, Args: []string{"--grace-period", c.grace.String()}},
				Grace:   c.grace, Pods: 2, Duration: deletedAt,
				Load: []world.Stream{{
					Rate: 10, Delay: c.takes, Timeout: c.takes + 20*time.Second, From: deletedAt - time.Second, Until: deletedAt,
				}},
				Envoy:  world.Envoy{Lag: time.Second, Fresh: 1, Policy: world.Policy{RouteTimeout: 2 * time.Minute}},
				Events: deletePods(1),
			})
			if len(r.Load.Failures) > 0 {
				t.Errorf("%d of %d requests lost", len(r.Load.Failures), r.Load.Sent)
			}
			endsBy(t, r, c.takes+quiet+leeway)
		})
	}
}

func TestC16DyingPeersCostAtMostOneRequestEach(t *testing.T) {
	r := run(t, world.Spec{
		App: world.App{OnTerm: world.Graceful}, Sidecar: world.Sidecar{Kind: world.Native, Relay: true, Args: []string{"--min", "0s"}},
		Envoy: world.Envoy{Lag: 3 * time.Second}, Duration: 12 * time.Second, Events: deletePods(2),
	})
	late := 0
	for _, f := range r.Load.Failures {
		if f.Kind == "timeout" {
			t.Errorf("timed out: %+v", f)
		}
		if trigger := lastTrigger(r); f.At > trigger {
			late++
		}
	}
	if late > 2 {
		t.Errorf("%d requests lost after the triggers", late)
	}
}

// lastTrigger is when the last of the deleted pods' hooks had run.
func lastTrigger(r world.Result) time.Duration {
	var last time.Duration
	for _, p := range r.Pods {
		if m, ok := p.Find("lameduck", world.MarkHookEnd); ok {
			last = max(last, m.At)
		}
	}
	return last
}

func TestC17WithoutALivePeerTheKernelRefuses(t *testing.T) {
	const short = 12 * time.Second
	r := run(t, world.Spec{
		Sidecar: world.Sidecar{Kind: world.Native, Relay: true}, Grace: short, Duration: deletedAt + 9*time.Second,
		Envoy:  world.Envoy{Lag: world.Never},
		Events: []world.Event{{At: deletedAt, Delete: []int{0}}, {At: deletedAt + 3*time.Second, Delete: []int{1, 2}}},
	})
	if r.Load.Slowest > time.Second {
		t.Errorf("a request hung for %v", r.Load.Slowest)
	}
	if n := r.Load.Kinds()["503"]; n < 3*rate {
		t.Errorf("only %d refused with no backend alive", n)
	}
	endsBy(t, r, short+leeway)
}

func TestC18EnvoyThatIsNeverSeenMeansNothingBeforeMin(t *testing.T) {
	r := run(t, world.Spec{
		Sidecar: holding("--envoy", "192.0.2.1"), Duration: 13 * time.Second,
		Envoy: world.Envoy{Lag: 8 * time.Second}, Events: deletePods(1),
	})
	lossless(t, r)
	if ended := endedAfter(t, r.Pods[0]); ended < 10*time.Second {
		t.Errorf("ended after %v", ended)
	}
	if !strings.Contains(r.Pods[0].Log, "no address of --envoy was seen") {
		t.Error("the log does not say that Envoy was never seen")
	}
}

func TestC22PlainSidecarLeavesLast(t *testing.T) {
	const takes = 20 * time.Second
	r := run(t, world.Spec{
		App: world.App{OnTerm: world.Graceful}, Sidecar: world.Sidecar{Kind: world.Plain, Relay: true}, Pods: 2,
		Load: []world.Stream{{Rate: rate, Until: 8 * time.Second}, {
			Name: "long", Rate: 10, Delay: takes, Timeout: takes + 5*time.Second, From: deletedAt - time.Second, Until: deletedAt,
		}},
		Envoy:  world.Envoy{Lag: 2 * time.Second, Fresh: 1, Policy: world.Policy{RouteTimeout: time.Minute}},
		Events: deletePods(1),
	})
	for _, f := range r.Load.Failures {
		if f.Stream == "long" {
			t.Errorf("a request in flight was lost: %+v", f)
		}
	}
	app, _ := r.Pods[0].Find("app", world.MarkExit)
	sidecar, _ := r.Pods[0].Find("lameduck", world.MarkExit)
	// It sees connections, not processes: an application that has none left may take its time to exit.
	if sidecar.At < app.At-time.Second {
		t.Errorf("lameduck left %v before the application", app.At-sidecar.At)
	}
	if ended := app.At - deletedAt; ended < takes-time.Second {
		t.Errorf("the application ended after %v, before its requests", ended)
	}
	endsBy(t, r, 29*time.Second+leeway)
}

func TestC26LonePollerLosesNothing(t *testing.T) {
	r := run(t, world.Spec{
		Sidecar: holding(), Pods: 2, Load: []world.Stream{{Rate: 1}}, Duration: 28 * time.Second,
		Envoy: world.Envoy{Lag: 20 * time.Second, Fresh: 1}, Events: deletePods(1),
	})
	lossless(t, r)
	endsBy(t, r, grace)
}

func TestC27UnannouncedChecksDoNotHoldToTheDeadline(t *testing.T) {
	r := run(t, world.Spec{
		Sidecar: holding("--min", "0s"), Duration: 24 * time.Second,
		Load: []world.Stream{{Rate: rate, Until: deletedAt - time.Second/2}, {
			Name: "check", Rate: 0.5, Path: "/healthz", Direct: true, Until: deletedAt + 20*time.Second, Timeout: time.Second,
		}},
		Envoy: world.Envoy{Lag: time.Second}, Events: deletePods(1),
	})
	endsBy(t, r, 15*time.Second)
}

func TestC28LateTriggerTakesThePortAtOnce(t *testing.T) {
	r := run(t, world.Spec{
		Sidecar: world.Sidecar{
			Kind: world.Native, Relay: true, HookDelay: 400 * time.Millisecond, Args: []string{"--min", "0s"},
		},
		Envoy: world.Envoy{Lag: 3 * time.Second}, Duration: 6 * time.Second, Events: deletePods(1),
	})
	w, refused := lastWords(t, r.Pods[0]), 0
	for _, f := range r.Load.Failures {
		if f.At > lastTrigger(r) {
			t.Errorf("lost after the trigger: %+v", f)
		}
		if f.Flags == "UF" {
			refused++
		}
	}
	if refused == 0 || w.Refused < refused {
		t.Errorf("the client saw %d refused, lameduck counted %d", refused, w.Refused)
	}
	if w.Relayed == 0 {
		t.Error("nothing was relayed")
	}
}

func TestC29ListenerHeldByAChildIsReported(t *testing.T) {
	const short = 10 * time.Second
	r := run(t, world.Spec{
		App: world.App{LeaveChild: true}, Grace: short, Duration: 8 * time.Second,
		Sidecar: world.Sidecar{Kind: world.Native, Relay: true}, Envoy: world.Envoy{Lag: 3 * time.Second},
		Events: append(deletePods(1), world.Event{
			At: deletedAt + 4*time.Second, Get: &world.Get{Pod: 0, Port: 8420, Path: "/status"},
		}),
	})
	if !strings.Contains(r.Answers[0].Body, `"stuck"`) {
		t.Errorf("the status does not say that the listener is stuck: %s", r.Answers[0].Body)
	}
	endsBy(t, r, short+2*time.Second+leeway)
}

func TestC33UserRequestsOfTheHealthPathAreRelayedAndEnvoysCheckFails(t *testing.T) { // C13 too
	r := run(t, world.Spec{
		Sidecar: world.Sidecar{Kind: world.Native, Relay: true, Args: []string{"--min", "0s"}},
		Load:    []world.Stream{{Rate: rate, Path: "/healthz"}}, Duration: 14 * time.Second,
		Envoy: world.Envoy{Lag: 8 * time.Second, Policy: world.Policy{
			KeepRemoved: true, Active: &world.Active{Path: "/healthz", Interval: 2 * time.Second, Timeout: time.Second},
		}},
		Events: append(deletePods(1), world.Event{
			At: deletedAt + 5*time.Second, Get: &world.Get{Pod: 0, Port: 8420, Path: "/status"},
		}),
	})
	for _, f := range r.Load.Failures {
		if f.At > lastTrigger(r) {
			t.Errorf("lost after the trigger: %+v", f)
		}
	}
	if strings.Contains(r.Answers[0].Body, `"checks":0`) || !strings.Contains(r.Answers[0].Body, `"checks":`) {
		t.Errorf("no check was failed: %s", r.Answers[0].Body)
	}
	if w := lastWords(t, r.Pods[0]); w.Relayed == 0 || w.Reason != "quiet" {
		t.Errorf("last words: %+v", w)
	}
}
