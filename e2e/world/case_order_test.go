package world_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// What may start a drain, and what may not.

// TestLivenessRestartDoesNotDrain: the kubelet calls the hold hook when it restarts the application alone, too. The pod's
// real end, later, is drained as ever. C6
func TestLivenessRestartDoesNotDrain(t *testing.T) {
	const end = deletedAt + 9*time.Second
	healthz := &world.Get{Port: adminPort, Path: "/healthz"}
	spec := world.Spec{
		App: world.App{OnTerm: world.Graceful}, Envoy: world.Envoy{Lag: time.Second}, Duration: end + 3*time.Second,
		Events: []world.Event{{At: deletedAt, Restart: []int{0}}, {At: end, Delete: []int{0}}},
	}
	restart := func(t *testing.T, r world.Result) (hook, up time.Duration) {
		started, sok := r.Pods[0].Find("app", world.MarkHookStart)
		ended, eok := r.Pods[0].Find("app", world.MarkHookEnd)
		again, aok := r.Pods[0].Find("app", world.MarkStarted)
		if !sok || !eok || !aok {
			t.Fatal("the application was not restarted")
		}
		return ended.At - started.At, again.At
	}
	t.Run("lameduck", func(t *testing.T) {
		spec := spec
		spec.Sidecar = holding("--min", "0s")
		for _, at := range []time.Duration{time.Second, 2500 * time.Millisecond, 4500 * time.Millisecond, 7500 * time.Millisecond} {
			spec.Events = append(spec.Events, world.Event{At: deletedAt + at, Get: healthz}, world.Event{At: deletedAt + at, Get: status(0)})
		}
		r := run(t, spec)
		held, up := restart(t, r)
		if held < 4900*time.Millisecond || held > 5500*time.Millisecond {
			t.Errorf("the hook held the restart for %v", held)
		}
		for _, a := range r.Answers {
			switch {
			case a.Status != http.StatusOK:
				t.Errorf("%s at %v: %d %s", a.Path, a.At, a.Status, a.Body)
			case a.Path == "/status" && statusIn(t, a).Phase != "serving":
				t.Errorf("at %v: %s", a.At, a.Body)
			}
		}
		// While it restarts, and only then, its connections are refused: nobody covers, for nobody drains.
		for _, f := range r.Load.Failures {
			if f.At < deletedAt+held || f.At > up+leeway {
				t.Errorf("lost beside the restart: %+v", f)
			}
		}
		endsBy(t, r, time.Second+quiet+leeway)
	})
	t.Run("sleep", func(t *testing.T) {
		spec := spec
		spec.PreStopSleep = 8 * time.Second
		if held, _ := restart(t, run(t, spec)); held < 8*time.Second {
			t.Errorf("the sleep held the restart for %v only", held)
		}
	})
}

// TestOneDrainReleasesEveryHoldTogether: the drain is started three times, SIGTERM comes twice and early, four more
// containers wait. C21
func TestOneDrainReleasesEveryHoldTogether(t *testing.T) {
	const lag = 3 * time.Second
	hold := &world.Get{Port: adminPort, Path: "/hold", Timeout: time.Minute}
	events := []world.Event{
		{At: deletedAt, Delete: []int{0}},
		{At: deletedAt + 500*time.Millisecond, Drain: []int{0}}, {At: deletedAt + time.Second, Drain: []int{0}},
		{At: deletedAt + 1500*time.Millisecond, Terminate: []int{0}}, {At: deletedAt + 2*time.Second, Terminate: []int{0}},
		{At: deletedAt + 2500*time.Millisecond, Get: status(0)},
	}
	for range 4 {
		events = append(events, world.Event{At: deletedAt - leeway, Get: hold})
	}
	r := run(t, world.Spec{
		Sidecar: holding("--min", "0s"), Envoy: world.Envoy{Lag: lag}, Duration: deletedAt + lag + quiet + 2*time.Second, Events: events,
	})
	lossless(t, r)
	endsBy(t, r, lag+quiet+leeway)
	released, _ := r.Pods[0].Find("app", world.MarkHookEnd)
	for _, a := range r.Answers {
		if a.Path == "/status" {
			if s := statusIn(t, a); s.Trigger != "drain" || s.Holds != 5 || s.Phase != "draining" {
				t.Errorf("status: %+v", s)
			}
			continue
		}
		if off := (a.At + a.Took - released.At).Abs(); a.Status != http.StatusOK || off > 100*time.Millisecond {
			t.Errorf("a hold was answered %d, %v from the hook", a.Status, off)
		}
	}
	for _, once := range []string{"phase=draining", `msg="hold released"`, `"last_words":"SIGTERM"`, `"last_words":"exit"`} {
		lines := 0
		for line := range strings.Lines(r.Pods[0].Log) {
			if strings.Contains(line, once) && (strings.Contains(line, "msg=phase ") || !strings.HasPrefix(once, "phase=")) {
				lines++
			}
		}
		if lines != 1 {
			t.Errorf("%d lines with %s", lines, once)
		}
	}
}

// TestNoRequestStartsOrSteersADrain: another pod, and the application itself, send whatever HTTP there is. C23
func TestNoRequestStartsOrSteersADrain(t *testing.T) {
	const end = deletedAt + 8*time.Second
	var events []world.Event
	for i, path := range []string{
		"/", "/drain", "/hold", "/healthz", "/livez", "/status", "/metrics", "/quit", "/quitquitquit", "/shutdown", "/preStop",
		"//drain", "/drain/", "/./drain", "/%64rain", "/hold?start=true", "/healthz/fail", "/status/phase",
	} {
		for j, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "DRAIN"} {
			get := world.Get{Port: adminPort, Path: path, Method: method, From: world.FromClient, Timeout: 6 * time.Second}
			if (i+j)%2 == 0 {
				get.From, get.Host = world.FromApp, []string{"127.0.0.1", ""}[j%2]
			}
			events = append(events, world.Event{At: time.Duration(i*9+j) * 10 * time.Millisecond, Get: &get})
		}
	}
	events = append(events,
		world.Event{At: end - leeway, Get: &world.Get{Port: adminPort, Path: "/healthz"}},
		world.Event{At: end - leeway, Get: status(0)},
		world.Event{At: end, Delete: []int{0}})
	// And while it drains, more often than its clock ticks.
	for at := end; at < end+8*time.Second; at += 100 * time.Millisecond {
		for _, path := range []string{"/status", "/hold", "/drain"} {
			get := world.Get{Port: adminPort, Path: path, From: world.FromClient, Timeout: 10 * time.Second}
			events = append(events, world.Event{At: at, Get: &get})
		}
	}
	r := run(t, world.Spec{
		Sidecar: holding("--min", "0s"), Envoy: world.Envoy{Lag: time.Second}, Duration: end + 3*time.Second, Events: events,
	})
	lossless(t, r)
	endsBy(t, r, time.Second+quiet+leeway)
	answers, checked := map[string]int{}, 0
	for _, a := range r.Answers {
		if a.At > end-leeway/2 {
			continue
		}
		answers[fmt.Sprint(a.Status)]++
		if a.From == world.FromNode {
			checked++
			if a.Status != http.StatusOK || a.Path == "/status" && statusIn(t, a).Phase != "serving" {
				t.Errorf("%s after all that: %d %s", a.Path, a.Status, a.Body)
			}
		}
	}
	if checked != 2 {
		t.Errorf("%d answers to the node", checked)
	}
	t.Log("answers while serving, by status:", answers)
	if w := lastWords(t, r.Pods[0]); w.Reason != "quiet" {
		t.Errorf("reason %q", w.Reason)
	}
}
