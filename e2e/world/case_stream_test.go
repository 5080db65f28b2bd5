package world_test

import (
	"testing"
	"time"

	"lameduck/e2e/world"
)

// Streams that do not end: they live as long as the application, and hold the pod no longer than its grace period.

// streamGrace is a short grace period, with half of it for the application, so that a run needs no minute.
const (
	streamGrace   = 10 * time.Second
	streamReserve = 4 * time.Second
)

// streaming is a run of sessions on the one pod that Envoy knows of at first.
func streaming(protocol world.Protocol, call world.Call, onTerm world.TermBehaviour) world.Spec {
	return world.Spec{
		Pods: 2, Protocol: protocol, App: world.App{OnTerm: onTerm}, Grace: streamGrace,
		Duration: deletedAt + streamGrace + 3*time.Second, Sessions: sessions(call), Load: []world.Stream{{Rate: 5}},
		Envoy:  world.Envoy{Lag: time.Second, Fresh: 1, Policy: world.Policy{RouteTimeout: world.Never}},
		Events: deletePods(1),
	}
}

// TestStreamsWithoutAnEndLiveAsLongAsTheApplication: of each kind one where the client sends a message each second, one
// where the application does, and one where nobody does. C11, C12
func TestStreamsWithoutAnEndLiveAsLongAsTheApplication(t *testing.T) {
	for _, c := range []struct {
		name     string
		protocol world.Protocol
		call     world.Call
		onTerm   world.TermBehaviour
		how      string // the end that a client sees
	}{
		{"C11 gRPC, graceful", world.GRPC, world.CallGRPCStream, world.Graceful, "status 13"},
		{"C11 gRPC, ignore", world.GRPC, world.CallGRPCStream, world.Ignore, "status 13"},
		{"C11 TCP, graceful", world.TCP, world.CallTCP, world.Graceful, "EOF"},
		{"C12 WebSocket, graceful", world.HTTP1, world.CallWebSocket, world.Graceful, "close 1001"},
		{"C12 WebSocket, ignore", world.HTTP1, world.CallWebSocket, world.Ignore, ""}, // EOF or reset
	} {
		spec := streaming(c.protocol, c.call, c.onTerm)
		t.Run(c.name+"/lameduck", func(t *testing.T) {
			spec := spec
			spec.Sidecar = world.Sidecar{Kind: world.Native, Hold: true, Args: []string{
				"--min", "0s", "--quiet", "2s", "--shutdown-reserve", streamReserve.String(),
			}}
			r := run(t, spec)
			pod := r.Pods[0]
			term, _ := pod.Find("app", world.MarkTerm)
			hold := streamGrace - streamReserve
			if held := term.At - trigger(t, pod); held < hold-leeway || held > hold+leeway {
				t.Errorf("held for %v, not %v", held, hold)
			}
			until := term
			if kill, killed := pod.Find("app", world.MarkKill); killed {
				until = kill
			}
			livedWith(t, r, c.how, until.At)
			endsBy(t, r, streamGrace+time.Second)
			if n := len(r.Load.Failures); n > 0 {
				t.Errorf("%d calls beside the streams were lost", n)
			}
			w := lastWords(t, pod)
			open, owed := 3, 1
			if c.protocol == world.GRPC { // one connection has all its streams, and the messages of one answer another
				open, owed = 1, 0
			}
			if w.LeftOpen < open || w.LeftOwed < owed || w.Needed <= streamGrace.Seconds() {
				t.Errorf("last words: %+v", w)
			}
		})
		if c.onTerm == world.Graceful && c.protocol != world.GRPC { // gRPC's waits for them of its own accord
			t.Run(c.name+"/nothing", func(t *testing.T) {
				for _, s := range run(t, spec).Load.Sessions {
					if s.At > deletedAt+2*time.Second {
						t.Errorf("without lameduck it lived as long: %+v", s)
					}
				}
			})
		}
	}
}

// livedWith fails the test for each session that ended before a moment, or in another way; "" stands for any.
func livedWith(t *testing.T, r world.Result, how string, until time.Duration) {
	t.Helper()
	if len(r.Load.Sessions) != len(r.Spec.Sessions) {
		t.Fatalf("%d sessions", len(r.Load.Sessions))
	}
	for _, s := range r.Load.Sessions {
		if s.Pod != "pod-0" || s.At < until || s.How == "kept" || how != "" && s.How != how {
			t.Errorf("%+v; the application lived until %v", s, until)
		}
		if s.Session != "silent" && s.Messages < int(until/time.Second)-1 {
			t.Errorf("only %d messages: %+v", s.Messages, s)
		}
	}
}

// TestSilentStreamDoesNotHoldThePod: it looks like an idle connection. It lives on all the same, as long as the
// application does. C11, C12
func TestSilentStreamDoesNotHoldThePod(t *testing.T) {
	for _, c := range []struct {
		name     string
		protocol world.Protocol
		call     world.Call
	}{{"gRPC", world.GRPC, world.CallGRPCStream}, {"WebSocket", world.HTTP1, world.CallWebSocket}} {
		t.Run(c.name, func(t *testing.T) {
			spec := streaming(c.protocol, c.call, world.Ignore)
			spec.Sidecar = holding("--min", "0s", "--quiet", "2s")
			spec.Sessions = []world.Session{{Name: "silent", Call: c.call}}
			r := run(t, spec)
			term, _ := r.Pods[0].Find("app", world.MarkTerm)
			if held := term.At - trigger(t, r.Pods[0]); held > 3*time.Second+leeway {
				t.Errorf("held for %v", held)
			}
			kill, _ := r.Pods[0].Find("app", world.MarkKill)
			livedWith(t, r, "", kill.At)
		})
	}
}

// TestPlainSidecarLeavesBeforeStreamsThatDoNotEnd: its own SIGTERM came first of all. It goes at its deadline, before the
// kubelet kills what is left, and tells of them. C11
func TestPlainSidecarLeavesBeforeStreamsThatDoNotEnd(t *testing.T) {
	spec := streaming(world.GRPC, world.CallGRPCStream, world.Graceful)
	spec.Sidecar = world.Sidecar{Kind: world.Plain, Relay: true, Args: []string{"--min", "0s", "--quiet", "2s"}}
	r := run(t, spec)
	kill, _ := r.Pods[0].Find("app", world.MarkKill)
	livedWith(t, r, "status 13", kill.At)
	endsBy(t, r, streamGrace+time.Second)
	if w := lastWords(t, r.Pods[0]); w.Reason != "deadline" || w.Connections == 0 {
		t.Errorf("last words: %+v", w)
	}
}
