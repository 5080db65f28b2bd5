package world_test

import (
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// What Envoy asks of a port that lameduck has taken over.

// TestOnlyEnvoysOwnChecksFailOnATakenPort: the client asks for the very path that Envoy checks, and is served; Envoy, which
// never hears of the deletion and keeps what passes its checks, drops the host at its first check. C33, C13
func TestOnlyEnvoysOwnChecksFailOnATakenPort(t *testing.T) {
	const interval = 2 * time.Second
	for name, check := range map[string]world.CheckKind{"HTTP1": world.CheckHTTP1, "HTTP2": world.CheckHTTP2, "gRPC": world.CheckGRPC} {
		spec := world.Spec{
			App:  world.App{OnTerm: world.Graceful},
			Load: []world.Stream{{Rate: rate, Path: "/healthz"}}, Duration: 14 * time.Second,
			Envoy: world.Envoy{Lag: world.Never, Watch: true, Policy: world.Policy{
				KeepRemoved: true, Active: &world.Active{Kind: check, Interval: interval},
			}},
			Events: deletePods(1),
		}
		if check != world.CheckHTTP1 {
			spec.Protocol = world.HTTP2
		}
		t.Run(name+"/lameduck", func(t *testing.T) {
			spec := spec
			spec.Sidecar = unheld(true, "--health-path", "/healthz,/grpc.health.v1.Health/Check")
			spec.Events = append(deletePods(1), world.Event{At: deletedAt + 5*time.Second, Get: status(0)})
			r := run(t, spec)
			taken := loggedAt(t, r, r.Pods[0], `msg="port taken"`)
			lostOnlyTo(t, r, taken)
			if s := statusIn(t, r.Answers[0]); s.Relay.Relayed == 0 || s.Relay.Checks == 0 {
				t.Errorf("%d relayed, %d checks failed", s.Relay.Relayed, s.Relay.Checks)
			}
			failed := failedAt(t, r)
			if failed < taken || failed > taken+interval+time.Second {
				t.Errorf("taken at %v, failed for Envoy at %v", taken, failed)
			}
			// Nothing else ends the traffic.
			endsBy(t, r, interval+quiet+time.Second)
			if w := lastWords(t, r.Pods[0]); w.Reason != "quiet" {
				t.Errorf("reason %q", w.Reason)
			}
		})
		t.Run(name+"/nothing", func(t *testing.T) {
			if r := run(t, spec); len(r.Load.Failures) < rate/2 {
				t.Errorf("only %d requests lost", len(r.Load.Failures))
			}
		})
	}
}

// lostOnlyTo checks that no request was lost but those that the kernel refused before the port was taken, and one that
// crossed with the end of a kept connection.
func lostOnlyTo(t *testing.T, r world.Result, taken time.Duration) {
	t.Helper()
	onceEach(t, r)
	crossed := 0
	for _, f := range r.Load.Failures {
		switch {
		case f.Flags == "UC", f.Flags == "UR": // by HTTP/2 the crossing request is refused (REFUSED_STREAM)
			crossed++
		case f.Flags != "UF" || f.At > taken:
			t.Errorf("lost: %+v", f)
		}
	}
	if crossed > 1 {
		t.Errorf("%d lost on connections that were closing", crossed)
	}
}

// failedAt is when Envoy held the first pod for unwell, which it has to stay.
func failedAt(t *testing.T, r world.Result) (at time.Duration) {
	t.Helper()
	for _, v := range r.Views {
		switch failed := strings.Contains(v.State, "failed_active_health_check"); {
		case v.Pod != 0:
		case failed && at == 0:
			at = v.At
		case !failed && at > 0 && v.State != "removed":
			t.Errorf("well again at %v: %s", v.At, v.State)
		}
	}
	if at == 0 {
		t.Errorf("never unwell for Envoy: %v", states(r, proxy, 0))
	}
	return at
}

// TestTLSPassesATakenPortOrMeetsARefusal: the relay touches no byte of TLS, and without a peer the kernel refuses, at the
// SYN. C15
func TestTLSPassesATakenPortOrMeetsARefusal(t *testing.T) {
	const lag = 4 * time.Second
	for name, protocol := range map[string]world.Protocol{"HTTP1": world.HTTP1, "HTTP2": world.HTTP2} {
		spec := world.Spec{
			Protocol: protocol, TLS: true, App: world.App{OnTerm: world.Graceful, PerRequest: protocol == world.HTTP1},
			Envoy: world.Envoy{Lag: lag}, Duration: deletedAt + lag + 3*time.Second, Events: deletePods(1),
		}
		t.Run(name+"/relay", func(t *testing.T) {
			spec := spec
			spec.Sidecar = unheld(true)
			r := run(t, spec)
			lostOnlyTo(t, r, loggedAt(t, r, r.Pods[0], `msg="port taken"`))
			if w := lastWords(t, r.Pods[0]); w.Relayed == 0 {
				t.Error("nothing was relayed")
			}
		})
		t.Run(name+"/no peer", func(t *testing.T) {
			spec := spec
			spec.Sidecar = unheld(false, "--relay-to", "127.0.0.2:1") // nobody is there
			r := run(t, spec)
			exit, _ := r.Pods[0].Find("app", world.MarkExit)
			refused := 0
			for _, f := range r.Load.Failures {
				switch {
				case strings.Contains(f.Details, "Connection_refused"):
					refused++
				case f.At > exit.At: // until then the application's own end costs what it accepted, or was to accept
					t.Errorf("lost otherwise: %+v", f)
				}
			}
			if refused < rate {
				t.Errorf("only %d requests refused", refused)
			}
		})
		t.Run(name+"/nothing", func(t *testing.T) {
			if n := run(t, spec).Load.Kinds()["timeout"]; n < rate/2 {
				t.Errorf("only %d timeouts", n)
			}
		})
	}
}
