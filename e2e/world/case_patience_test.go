package world_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// What keeps a pod alive: answers that are owed, a lone poller, an Envoy that nobody has seen. Envoy knows of no pod but
// the dying one until the lag is over (Fresh).

// TestRequestInFlightIsAwaited: an owed answer holds, however long its connection has been silent. The pod is hidden
// from Envoy long before.
func TestRequestInFlightIsAwaited(t *testing.T) {
	for _, c := range []struct {
		name                string
		takes, grace, sleep time.Duration
	}{
		{"C25 12 s", 12 * time.Second, 30 * time.Second, 8 * time.Second},
		{"C10 45 s", 45 * time.Second, 90 * time.Second, 25 * time.Second},
	} {
		spec := world.Spec{
			Grace: c.grace, Pods: 2, Duration: deletedAt, Events: deletePods(1),
			Load: []world.Stream{{
				Rate: 10, Delay: c.takes, Timeout: c.takes + 20*time.Second, From: deletedAt - time.Second, Until: deletedAt,
			}},
			Envoy: world.Envoy{Lag: time.Second, Fresh: 1, Policy: world.Policy{RouteTimeout: 2 * time.Minute}},
		}
		t.Run(c.name+"/lameduck", func(t *testing.T) {
			spec := spec
			spec.Sidecar = world.Sidecar{Kind: world.Native, Hold: true}
			r := run(t, spec)
			if len(r.Load.Failures) > 0 {
				t.Errorf("%d of %d requests lost", len(r.Load.Failures), r.Load.Sent)
			}
			endsBy(t, r, c.takes+quiet+leeway)
			if ended := endedAfter(t, r.Pods[0]); ended < c.takes-time.Second {
				t.Errorf("ended after %v, before the answers", ended)
			}
		})
		t.Run(c.name+"/sleep", func(t *testing.T) {
			spec := spec
			spec.PreStopSleep = c.sleep
			if r := run(t, spec); len(r.Load.Failures) < r.Load.Sent/2 {
				t.Errorf("only %d of %d requests lost", len(r.Load.Failures), r.Load.Sent)
			}
		})
	}
}

// TestSlowCallOverHTTP2IsAwaited: a server's HTTP/2 code speaks when a request comes, long before the answer. C25
func TestSlowCallOverHTTP2IsAwaited(t *testing.T) {
	const takes = 12 * time.Second
	for _, c := range []struct {
		name string
		call world.Call
		warm bool // its connection has carried short calls before
	}{
		{"GET", world.CallGet, false}, {"POST", world.CallPost, false}, {"gRPC", world.CallGRPC, false},
		{"GET, warm", world.CallGet, true}, {"gRPC, warm", world.CallGRPC, true},
	} {
		spec := world.Spec{
			Protocol: world.HTTP2, Grace: 30 * time.Second, Pods: 2, Duration: deletedAt + time.Second, Events: deletePods(1),
			Load: []world.Stream{{
				Call: c.call, Rate: 10, Delay: takes, Timeout: 2 * takes, From: deletedAt - time.Second, Until: deletedAt,
			}},
			Envoy: world.Envoy{Lag: time.Second, Fresh: 1, Policy: world.Policy{RouteTimeout: 2 * time.Minute}},
		}
		if c.call == world.CallGRPC {
			spec.Protocol = world.GRPC
		}
		if c.warm {
			// The slow call comes in the drain: of one that came before, on a connection that had carried others, the PING of
			// gRPC's server hides that it waits.
			spec.Load[0].From, spec.Load[0].Until = deletedAt+800*time.Millisecond, deletedAt+900*time.Millisecond
			spec.Load = append(spec.Load, world.Stream{Call: c.call, Rate: 100, Name: "short", Until: deletedAt + 300*time.Millisecond})
			spec.Envoy.Lag = 2 * time.Second
		}
		t.Run(c.name+"/lameduck", func(t *testing.T) {
			spec := spec
			spec.Sidecar = world.Sidecar{Kind: world.Native, Hold: true, Args: []string{"--min", "0s", "--quiet", "3s"}}
			r := run(t, spec)
			if len(r.Load.Failures) > 0 {
				t.Errorf("%d of %d requests lost", len(r.Load.Failures), r.Load.Sent)
			}
			endsBy(t, r, takes+quiet+time.Second)
		})
		t.Run(c.name+"/sleep", func(t *testing.T) {
			spec := spec
			spec.PreStopSleep = 8 * time.Second
			if r := run(t, spec); len(r.Load.Failures) == 0 {
				t.Errorf("only %d of %d requests lost", len(r.Load.Failures), r.Load.Sent)
			}
		})
	}
}

// TestLonePollerIsServedToTheEnd: one request a second, all alike, is no health check. C26
func TestLonePollerIsServedToTheEnd(t *testing.T) {
	const lag = 20 * time.Second
	for _, c := range []struct {
		name       string
		protocol   world.Protocol
		perRequest bool
	}{
		{name: "kept connection"}, {name: "new connections", perRequest: true}, {name: "HTTP2", protocol: world.HTTP2},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := world.Spec{
				Pods: 2, Load: []world.Stream{{Rate: 1}}, Duration: deletedAt + lag + 4*time.Second, Grace: time.Minute,
				Protocol: c.protocol, App: world.App{PerRequest: c.perRequest},
				Envoy: world.Envoy{Lag: lag, Fresh: 1}, Events: deletePods(1),
			}
			t.Run("lameduck", func(t *testing.T) {
				spec := spec
				spec.Sidecar = world.Sidecar{Kind: world.Native, Hold: true} // and no relay that could save a poll
				r := run(t, spec)
				lossless(t, r)
				endsBy(t, r, lag+quiet+time.Second)
			})
			t.Run("sleep", func(t *testing.T) {
				spec := spec
				spec.PreStopSleep = 10 * time.Second
				if r := run(t, spec); len(r.Load.Failures) == 0 {
					t.Errorf("only %d polls lost", len(r.Load.Failures))
				}
			})
		})
	}
}

// TestEnvoyBehindTheNodesAddressIsNotTakenForSilence: Envoy is listed, and comes by NAT from elsewhere. C18
func TestEnvoyBehindTheNodesAddressIsNotTakenForSilence(t *testing.T) {
	const lag = 12 * time.Second
	spec := world.Spec{
		Pods: 2, Envoy: world.Envoy{Lag: lag, Fresh: 1, NAT: true}, Events: deletePods(1), Duration: deletedAt + lag + 4*time.Second,
	}
	seen := func(t *testing.T, r world.Result, ended, limit time.Duration) {
		endsBy(t, r, limit)
		if got := endedAfter(t, r.Pods[0]); got < ended {
			t.Errorf("ended after %v, not %v", got, ended)
		}
		if !strings.Contains(r.Pods[0].Log, "no address of --envoy was seen") {
			t.Error("the log does not say that Envoy was never seen")
		}
	}
	t.Run("under traffic", func(t *testing.T) {
		spec := spec
		spec.Sidecar = world.Sidecar{Kind: world.Native, Hold: true, Args: []string{"--envoy", "10.2.0.10"}}
		r := run(t, spec)
		lossless(t, r)
		seen(t, r, lag, lag+quiet+leeway)
	})
	t.Run("in silence", func(t *testing.T) {
		spec := spec
		spec.Sidecar = world.Sidecar{Kind: world.Native, Hold: true, Args: []string{"--envoy", "10.2.0.10"}}
		spec.Load = []world.Stream{{Rate: rate, Until: deletedAt - time.Second}}
		r := run(t, spec)
		lossless(t, r)
		seen(t, r, leastHold, leastHold+time.Second)
	})
	t.Run("sleep", func(t *testing.T) {
		spec := spec
		spec.PreStopSleep = 5 * time.Second
		if r := run(t, spec); len(r.Load.Failures) < rate {
			t.Errorf("only %d requests lost", len(r.Load.Failures))
		}
	})
}

// leastHold is --min's default.
const leastHold = 10 * time.Second

// TestLameduckLeavesAtItsDeadline: C8 an application that ignores SIGTERM, C29 a child that still holds the listener. In
// both the grace period ends, and nothing of lameduck's is killed for it. (C9 is TestEndlessLagEndsWithTheGracePeriod.)
func TestLameduckLeavesAtItsDeadline(t *testing.T) {
	const short = 12 * time.Second
	t.Run("C8", func(t *testing.T) {
		for _, kind := range []world.SidecarKind{world.Plain, world.Native} {
			t.Run(string(kind), func(t *testing.T) {
				r := run(t, world.Spec{
					App: world.App{OnTerm: world.Ignore}, Grace: short, Duration: short,
					Sidecar: world.Sidecar{Kind: kind, Relay: true}, Envoy: world.Envoy{Lag: time.Second}, Events: deletePods(1),
				})
				lossless(t, r)
				endsBy(t, r, short+leeway)
				if w := lastWords(t, r.Pods[0]); w.Reason != "deadline" {
					t.Errorf("reason %q", w.Reason)
				}
			})
		}
	})
	t.Run("C29", func(t *testing.T) {
		r := run(t, world.Spec{
			App: world.App{LeaveChild: true}, Grace: short, Duration: 8 * time.Second,
			Sidecar: world.Sidecar{Kind: world.Native, Relay: true}, Envoy: world.Envoy{Lag: 3 * time.Second},
			Events: append(deletePods(1), world.Event{At: deletedAt + 4*time.Second, Get: status(0)}),
		})
		if !strings.Contains(r.Pods[0].Log, `msg="app stuck"`) || !strings.Contains(r.Answers[0].Body, `"stuck"`) {
			t.Errorf("neither log nor status say that the application is stuck: %s", r.Answers[0].Body)
		}
		endsBy(t, r, short+leeway)
	})
}

// TestPlainSidecarCoversUntilTheLastAnswer: it gets its SIGTERM with the application, which has requests to finish. The
// end of the application's process shows in no socket; that of its last connection does. C22
func TestPlainSidecarCoversUntilTheLastAnswer(t *testing.T) {
	const takes = 18 * time.Second
	spec := world.Spec{
		App: world.App{OnTerm: world.Graceful}, Duration: 8 * time.Second,
		Load: []world.Stream{{Rate: rate}, {
			Name: "long", Rate: 12, Delay: takes, Timeout: takes + 5*time.Second, From: deletedAt - time.Second, Until: deletedAt,
		}},
		Envoy: world.Envoy{Lag: 3 * time.Second, Policy: world.Policy{RouteTimeout: time.Minute}}, Events: deletePods(1),
	}
	t.Run("lameduck", func(t *testing.T) {
		spec := spec
		spec.Sidecar = world.Sidecar{Kind: world.Plain, Relay: true}
		r := run(t, spec)
		app, _ := r.Pods[0].Find("app", world.MarkExit)
		sidecar, _ := r.Pods[0].Find("lameduck", world.MarkExit)
		answered := deletedAt + takes - time.Second // at least
		if app.At < answered || sidecar.At < answered {
			t.Errorf("the application left at %v, lameduck at %v, the answers at %v", app.At, sidecar.At, answered)
		}
		endsBy(t, r, takes+time.Second)
		crossed := 0
		for _, f := range r.Load.Failures {
			switch {
			case f.Stream == "long" || f.Kind != "503":
				t.Errorf("lost: %+v", f)
			case f.Flags == "UC": // a closing keep-alive connection can cross with a request
				crossed++
			}
		}
		w := lastWords(t, r.Pods[0])
		if refused := len(r.Load.Failures) - crossed; crossed > 1 || refused > w.Refused {
			t.Errorf("%d crossed, %d refused, of which lameduck knows %d", crossed, refused, w.Refused)
		}
		if w.Relayed == 0 {
			t.Error("nothing was relayed")
		}
	})
	t.Run("nothing", func(t *testing.T) {
		if r := run(t, spec); len(r.Load.Failures) < 10 { // LEAST_REQUEST sends little to a pod with long requests open
			t.Errorf("only %d requests lost", len(r.Load.Failures))
		}
	})
}

// status asks a pod's lameduck for its status.
func status(pod int) *world.Get { return &world.Get{Pod: pod, Port: adminPort, Path: "/status"} }

// adminPort is lameduck's.
const adminPort = 8420

// trigger is when a pod's hook had started its drain.
func trigger(t *testing.T, p world.Pod) time.Duration {
	t.Helper()
	m, ok := p.Find("lameduck", world.MarkHookEnd)
	if !ok {
		t.Fatalf("%s: no drain was started", p.Name)
	}
	return m.At
}

// loggedAt is when a pod's lameduck wrote the first line that has all parts, from the load's start.
func loggedAt(t *testing.T, r world.Result, p world.Pod, parts ...string) time.Duration {
	t.Helper()
lines:
	for line := range strings.Lines(p.Log) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue lines
			}
		}
		var stamp string
		if _, err := fmt.Sscanf(line, "time=%s", &stamp); err != nil {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			t.Fatal(err)
		}
		return at.Sub(r.Load.Start)
	}
	t.Fatalf("%s: no line with %q in its log", p.Name, parts)
	return 0
}
