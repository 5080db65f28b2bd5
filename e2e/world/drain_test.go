package world_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// apps are the four manners of an application on SIGTERM.
var apps = []world.App{
	{OnTerm: world.Exit}, {OnTerm: world.Graceful}, {OnTerm: world.Serve, ServeFor: 4 * time.Second}, {OnTerm: world.Ignore},
}

// words are lameduck's last words, as far as the tests read them.
type words struct {
	Reason  string
	Elapsed float64
	Refused int
	Relayed int
	// Connections are open at the end, Left… were so at the hold's release.
	Connections int
	LeftOpen    int `json:"left_open"`
	LeftOwed    int `json:"left_owed"`
	Sending     []string
	Needed      float64 `json:"grace_needed"`
}

// lastWords of a pod; the test fails without any.
func lastWords(t *testing.T, p world.Pod) words {
	t.Helper()
	var w words
	if err := json.Unmarshal(p.LastWords, &w); err != nil {
		t.Fatalf("%s left no last words: %v", p.Name, err)
	}
	return w
}

// lossless fails the test for each lost request and for any that took over a second.
func lossless(t *testing.T, r world.Result) {
	t.Helper()
	if n := len(r.Load.Failures); n > 0 {
		t.Errorf("%d of %d requests lost: %v", n, r.Load.Sent, r.Load.Kinds())
	}
	onceEach(t, r)
	if r.Load.Slowest > time.Second {
		t.Errorf("the slowest request took %v", r.Load.Slowest)
	}
}

// onceEach fails the test if a request that must not be sent again came to applications twice.
func onceEach(t *testing.T, r world.Result) {
	t.Helper()
	if r.Replayed > 0 {
		t.Errorf("%d requests were delivered twice", r.Replayed)
	}
}

// endsBy fails the test if a deleted pod ends later, or if lameduck has to be killed or fails.
func endsBy(t *testing.T, r world.Result, limit time.Duration) {
	t.Helper()
	for _, p := range r.Pods {
		if _, deleted := p.Find("", world.MarkDeleted); !deleted {
			continue
		}
		if ended := endedAfter(t, p); ended > limit {
			t.Errorf("%s ended after %v, not by %v", p.Name, ended, limit)
		}
		if exit, _ := p.Find("lameduck", world.MarkExit); p.Killed("lameduck") || exit.Detail != "exit status 0" {
			t.Errorf("lameduck of %s: %s", p.Name, exit.Detail)
		}
	}
}

const (
	quiet  = 5 * time.Second
	leeway = 500 * time.Millisecond
	grace  = 30 * time.Second
)

// holding is the recommended set-up: a native sidecar, and the hold hook on the application.
func holding(args ...string) world.Sidecar {
	return world.Sidecar{Kind: world.Native, Hold: true, Relay: true, Args: args}
}

// TestHoldHookLosesNothing: with the hold hook no request fails, whatever the application does on SIGTERM, and Envoy
// has no policy at all.
func TestHoldHookLosesNothing(t *testing.T) {
	for _, a := range apps {
		t.Run(string(a.OnTerm), func(t *testing.T) {
			r := run(t, world.Spec{
				App: a, Sidecar: holding("--min", "0s"), Grace: 20 * time.Second, Duration: 14 * time.Second,
				Envoy: world.Envoy{Lag: 3 * time.Second}, Events: deletePods(1),
			})
			lossless(t, r)
			switch a.OnTerm {
			case world.Ignore: // killed at the end, lameduck not
				endsBy(t, r, 20*time.Second+leeway)
			case world.Serve:
				endsBy(t, r, 3*time.Second+quiet+a.ServeFor+leeway)
			default:
				endsBy(t, r, 3*time.Second+quiet+leeway)
			}
		})
	}
}

// TestWithoutTheHoldHookRelayLosesOnlyWhatNobodyCouldSave: what was refused between the listener's death and the
// trigger, which lameduck counts, and what was in flight in an application that exits at once.
func TestWithoutTheHoldHookRelayLosesOnlyWhatNobodyCouldSave(t *testing.T) {
	for _, a := range apps {
		t.Run(string(a.OnTerm), func(t *testing.T) {
			r := run(t, world.Spec{
				App: a, Sidecar: world.Sidecar{Kind: world.Native, Relay: true, Args: []string{"--min", "0s"}},
				Grace: 20 * time.Second, Duration: 14 * time.Second,
				Envoy: world.Envoy{Lag: 3 * time.Second}, Events: deletePods(1),
			})
			trigger, _ := r.Pods[0].Find("lameduck", world.MarkHookEnd)
			refused, inFlight := 0, 0
			for _, f := range r.Load.Failures {
				switch {
				case f.Kind == "503" && f.Flags == "UF" && f.At <= trigger.At:
					refused++
				case f.Kind == "503" && f.Flags == "UC":
					inFlight++
				default:
					t.Errorf("lost without need: %+v", f)
				}
			}
			// One may have been refused before the news of the listener's death was read: the count begins there.
			if counted := lastWords(t, r.Pods[0]).Refused; refused > counted+1 {
				t.Errorf("the client saw %d refused, lameduck %d", refused, counted)
			}
			// A closing keep-alive connection can always cross with a request: one is the protocol's doing.
			if inFlight > 1 && a.OnTerm != world.Exit && a.OnTerm != world.Serve {
				t.Errorf("%d lost in flight", inFlight)
			}
			if r.Load.Slowest > time.Second {
				t.Errorf("the slowest request took %v", r.Load.Slowest)
			}
		})
	}
}

// TestHoldEndsWithTheLag: under traffic the pod ends as soon as the lag allows, with no request lost.
func TestHoldEndsWithTheLag(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Second, 3 * time.Second, 8 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			r := run(t, world.Spec{
				Sidecar: holding("--min", "0s"), Grace: grace, Duration: deletedAt + lag + quiet + 3*time.Second,
				Envoy: world.Envoy{Lag: lag}, Events: deletePods(1),
			})
			lossless(t, r)
			endsBy(t, r, lag+quiet+leeway)
			if w := lastWords(t, r.Pods[0]); w.Reason != "quiet" {
				t.Errorf("reason %q", w.Reason)
			}
		})
	}
}

// TestSleepShorterThanTheLagLosesRequests is the row without lameduck.
func TestSleepShorterThanTheLagLosesRequests(t *testing.T) {
	r := run(t, world.Spec{
		PreStopSleep: 4 * time.Second, Duration: 12 * time.Second,
		Envoy: world.Envoy{Lag: 8 * time.Second}, Events: deletePods(1),
	})
	if n := len(r.Load.Failures); n < rate {
		t.Errorf("only %d requests lost", n)
	}
}

// TestEndlessLagEndsWithTheGracePeriod: the hold ends in time for nobody to be killed. C9
func TestEndlessLagEndsWithTheGracePeriod(t *testing.T) {
	const short = 15 * time.Second
	r := run(t, world.Spec{
		Sidecar: holding(), Grace: short, Duration: short + 2*time.Second,
		Envoy: world.Envoy{Lag: world.Never}, Events: deletePods(1),
	})
	endsBy(t, r, short+leeway)
	if r.Pods[0].Killed("app") {
		t.Error("the application was killed")
	}
	w := lastWords(t, r.Pods[0])
	if w.Reason != "deadline" || w.Needed <= short.Seconds() || fmt.Sprint(w.Sending) != "[10.2.0.10]" {
		t.Errorf("last words: %+v", w)
	}
	// Until the deadline, less what the exit takes, nothing is lost.
	for _, f := range r.Load.Failures {
		if f.At < deletedAt+short-2*time.Second {
			t.Errorf("lost before the deadline: %+v", f)
		}
	}
}

// TestSparseTrafficLosesNothing: all of it goes to the dying pod, for Envoy hears of the others late, too.
func TestSparseTrafficLosesNothing(t *testing.T) {
	for _, every := range []time.Duration{4 * time.Second, 7 * time.Second} {
		t.Run("one request in "+every.String(), func(t *testing.T) {
			r := run(t, world.Spec{
				Sidecar: holding(), Grace: grace, Duration: 26 * time.Second, Pods: 2,
				Load:  []world.Stream{{Rate: 1 / every.Seconds()}},
				Envoy: world.Envoy{Lag: 15 * time.Second, Fresh: 1}, Events: deletePods(1),
			})
			lossless(t, r)
			endsBy(t, r, grace)
		})
	}
}
