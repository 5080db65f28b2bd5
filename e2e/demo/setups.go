// Package demo runs the same death of a pod in several set-ups, with lameduck and without, and shows them side by side.
package demo

import (
	"time"

	"lameduck/e2e/world"
)

// Setup is one way to run a backend: one row of the table and of the picture.
type Setup struct {
	// Name says what is set up, App what the application does on SIGTERM.
	Name, App string
	Spec      world.Spec
}

// The demo's measures.
const (
	rate      = 200
	lag       = 3 * time.Second
	deletedAt = 2 * time.Second
	load      = 20 * time.Second
)

// Setups are the demo's rows, in order.
func Setups() []Setup {
	exit := world.App{OnTerm: world.Exit}
	all := []Setup{
		{"nothing", exitsAtOnce, world.Spec{App: exit}},
		{"the report's policy", exitsAtOnce, world.Spec{App: exit, Envoy: world.Envoy{Policy: world.ReportPolicy()}}},
		{"connectTimeout: 4s", exitsAtOnce, world.Spec{App: exit, Envoy: world.Envoy{Policy: world.ConnectTimeoutPolicy()}}},
		{"preStop: sleep 25", exitsAtOnce, world.Spec{App: exit, PreStopSleep: 25 * time.Second}},
		{"lameduck, reset, Envoy retries", exitsAtOnce, world.Spec{
			App: exit, Sidecar: world.Sidecar{Kind: world.Native, Args: []string{"--after-app", "reset"}},
			Envoy: world.Envoy{Policy: world.DefaultRetryPolicy()},
		}},
		{"lameduck, relay", exitsAtOnce, world.Spec{App: exit, Sidecar: world.Sidecar{Kind: world.Native, Relay: true}}},
	}
	for _, a := range []struct {
		name string
		app  world.App
	}{
		{exitsAtOnce, exit},
		{"graceful", world.App{OnTerm: world.Graceful}},
		{"serves on for 5 s", world.App{OnTerm: world.Serve, ServeFor: 5 * time.Second}},
		{"ignores it", world.App{OnTerm: world.Ignore}},
	} {
		all = append(all, Setup{"lameduck, hold hook", a.name, world.Spec{
			App: a.app, Sidecar: world.Sidecar{Kind: world.Native, Hold: true, Relay: true},
		}})
	}
	for i := range all {
		s := &all[i].Spec
		s.Name, s.Duration, s.Envoy.Lag = all[i].Name, load, lag
		s.Load = []world.Stream{{Rate: rate}}
		s.Events = []world.Event{{At: deletedAt, Delete: []int{0}}}
	}
	return all
}

const exitsAtOnce = "exits at once"
