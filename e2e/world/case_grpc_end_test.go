package world_test

import (
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// What a gRPC client sees of a stream's end, or of a call's: these tests hold the README's table to it.
const (
	streamReset = "stream terminated by RST_STREAM with error code: INTERNAL_ERROR"
	noHeaders   = "upstream connect error or disconnect/reset before headers"
)

// bare has neither hold hook nor relay.
func bare() world.Sidecar {
	return world.Sidecar{Kind: world.Native, Args: []string{"--min", "0s", "--quiet", "1s"}}
}

// streamEnds fails the test unless a session has ended so.
func streamEnds(t *testing.T, r world.Result, name, how, detail string) {
	t.Helper()
	for _, s := range r.Load.Sessions {
		if s.Session == name {
			t.Logf("%s: %s at %.2f s after %d messages: %s", name, s.How, s.At.Seconds(), s.Messages, s.Detail)
			if s.How != how || !strings.Contains(s.Detail, detail) {
				t.Errorf("not %q with %q", how, detail)
			}
			return
		}
	}
	t.Errorf("no session %q", name)
}

// failWithoutHeaders fails the test unless calls have failed, and all of them for want of an answer.
func failWithoutHeaders(t *testing.T, r world.Result, because string) {
	t.Helper()
	if len(r.Load.Failures) == 0 {
		t.Error("no call failed")
	}
	for _, f := range r.Load.Failures {
		if f.Kind != "status 14" || !strings.HasPrefix(f.Detail, noHeaders) || !strings.Contains(f.Detail, because) {
			t.Errorf("%+v", f)
		}
	}
}

func TestGRPCEndsWithApplicationThatExits(t *testing.T) {
	spec := streaming(world.GRPC, world.CallGRPCStream, world.Exit)
	spec.Duration, spec.Sidecar = deletedAt+4*time.Second, bare()
	spec.Load = []world.Stream{{Name: "unanswered", Call: world.CallGRPC, Rate: 5, Delay: 3 * time.Second, Until: deletedAt}}
	r := run(t, spec)
	streamEnds(t, r, "sends", "status 13", streamReset)
	streamEnds(t, r, "silent", "status 13", streamReset)
	failWithoutHeaders(t, r, "")
}

func TestGRPCEndsWithRefusedConnection(t *testing.T) {
	spec := streaming(world.GRPC, world.CallGRPCStream, world.Exit)
	spec.Duration, spec.Sidecar, spec.Envoy.Lag = deletedAt+3*time.Second, bare(), 3*time.Second
	// From a second after the application's end on: what met it as it went has another end.
	spec.Sessions, spec.Load = nil, []world.Stream{{Call: world.CallGRPC, Rate: 5, From: deletedAt + time.Second, Until: deletedAt + 2*time.Second}}
	failWithoutHeaders(t, run(t, spec), "reset reason: remote connection failure")
}

func TestGRPCEndsWithGracefulApplication(t *testing.T) {
	spec := streaming(world.GRPC, world.CallGRPCStream, world.Graceful)
	spec.Sidecar = bare()
	spec.Sessions = append(spec.Sessions, world.Session{
		Name: "finite", Call: world.CallGRPCStream, Every: time.Second, Messages: 7,
	})
	r := run(t, spec)
	streamEnds(t, r, "finite", "status 0", "")
	kill, _ := r.Pods[0].Find("app", world.MarkKill)
	for _, s := range r.Load.Sessions {
		if s.Session != "finite" && (s.At < kill.At || kill.At < deletedAt+streamGrace-leeway) {
			t.Errorf("ended before the SIGKILL: %+v", s)
		}
	}
	streamEnds(t, r, "sends", "status 13", streamReset)
}

func TestGRPCEndsWithPeerOfTheRelay(t *testing.T) {
	spec := streaming(world.GRPC, world.CallGRPCStream, world.Exit)
	spec.Sidecar = unheld(true)
	spec.Envoy.Lag = world.Never
	for i := range spec.Sessions {
		spec.Sessions[i].From = deletedAt + 2*time.Second
	}
	const peerEnds = deletedAt + 5*time.Second
	spec.Events = append(spec.Events, world.Event{At: peerEnds, Delete: []int{1}})
	r := run(t, spec)
	streamEnds(t, r, "sends", "status 13", streamReset)
	for _, s := range r.Load.Sessions {
		if s.Pod != "pod-1" || s.At < peerEnds || s.At > peerEnds+time.Second {
			t.Errorf("%+v", s)
		}
	}
}

// A relayed stream on which nothing moves is an idle connection: lameduck leaves when Envoy is silent.
func TestGRPCEndsWithLameduckThatLeavesASilentStream(t *testing.T) {
	spec := streaming(world.GRPC, world.CallGRPCStream, world.Exit)
	spec.Sidecar, spec.Envoy.Lag, spec.Grace = unheld(true), 3*time.Second, grace
	spec.Sessions = []world.Session{{Name: "silent", Call: world.CallGRPCStream, From: deletedAt + 2*time.Second}}
	r := run(t, spec)
	streamEnds(t, r, "silent", "status 13", streamReset)
	exit, _ := r.Pods[0].Find("lameduck", world.MarkExit)
	for _, s := range r.Load.Sessions {
		if s.Pod != "pod-1" || s.At < exit.At-leeway || s.At > exit.At+leeway {
			t.Errorf("%+v; lameduck left at %v", s, exit.At)
		}
	}
}

func TestGRPCDoesNotEndWithAnAddressThatIsGone(t *testing.T) {
	spec := streaming(world.GRPC, world.CallGRPCStream, world.Exit)
	spec.Duration, spec.Load = deletedAt+10*time.Second, []world.Stream{{Rate: 5, Until: deletedAt - time.Second}}
	// Between two messages: they come each second.
	spec.Events = []world.Event{{At: deletedAt + time.Second/2, Unplug: []int{0}}}
	r := run(t, spec)
	streamEnds(t, r, "sends", "kept", "")
	for _, s := range r.Load.Sessions {
		if s.Messages > 4 {
			t.Errorf("it was not unplugged: %+v", s)
		}
	}
}
