package world_test

import (
	"testing"
	"time"

	"lameduck/e2e/world"
)

// TestOtherShapesOfTheSameDeath: several pods at once, two Envoys, a connection for each request, IPv6, the plain
// sidecar's order. Each shape with the hold hook loses nothing, and without lameduck loses requests.
func TestOtherShapesOfTheSameDeath(t *testing.T) {
	plain := holding("--min", "0s")
	plain.Kind = world.Plain
	for _, shape := range []struct {
		name string
		spec world.Spec
	}{
		{"three of five pods at once", world.Spec{Pods: 5, Sidecar: holding("--min", "0s"), Events: deletePods(3)}},
		{"two Envoys", world.Spec{Sidecar: holding("--min", "0s"), Envoy: world.Envoy{Count: 2}}},
		{"600 connections a second", world.Spec{
			Sidecar: holding("--min", "0s"), App: world.App{PerRequest: true}, Load: []world.Stream{{Rate: 600}},
		}},
		{"IPv6", world.Spec{Sidecar: holding("--min", "0s"), IPv6: true}},
		{"plain sidecar", world.Spec{Sidecar: plain}},
	} {
		spec := shape.spec
		spec.Duration, spec.Envoy.Lag = 13*time.Second, 3*time.Second
		if spec.Events == nil {
			spec.Events = deletePods(1)
		}
		t.Run(shape.name+"/lameduck", func(t *testing.T) {
			r := run(t, spec)
			lossless(t, r)
			endsBy(t, r, 3*time.Second+quiet+leeway)
		})
		spec.Sidecar, spec.Duration = world.Sidecar{}, 6*time.Second
		t.Run(shape.name+"/nothing", func(t *testing.T) {
			if r := run(t, spec); len(r.Load.Failures) < rate/2 {
				t.Errorf("only %d requests lost without lameduck", len(r.Load.Failures))
			}
		})
	}
}

// TestPodsThatAllEndTogetherDoNotKeepEachOther: a Service is scaled to nothing. The dying pods are each other's only peers.
// What they ask of each other as the last of them let go is refused, and takes one more quiet window at the most.
func TestPodsThatAllEndTogetherDoNotKeepEachOther(t *testing.T) {
	for name, hold := range map[string]bool{"hold hook": true, "no hook": false} {
		t.Run(name, func(t *testing.T) {
			sidecar := holding("--min", "0s")
			sidecar.Hold = hold
			const lag = time.Second
			r := run(t, world.Spec{
				Sidecar: sidecar, Duration: deletedAt + lag + time.Second, Envoy: world.Envoy{Lag: lag}, Events: deletePods(3),
			})
			endsBy(t, r, lag+2*quiet+2*time.Second)
		})
	}
}
