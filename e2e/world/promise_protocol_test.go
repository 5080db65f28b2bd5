package world_test

import (
	"testing"
	"time"

	"lameduck/e2e/world"
)

// TestEveryProtocolIsCarried without a loss, and sessions live, where no pod dies.
func TestEveryProtocolIsCarried(t *testing.T) {
	const duration = 4 * time.Second
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			r := run(t, p.with(world.Spec{Duration: duration, Sessions: p.kept()}))
			lossless(t, r)
			served := 0
			for _, pod := range r.Pods {
				served += pod.Served
			}
			if served != r.Load.Sent || r.Replayed > 0 {
				t.Errorf("%d sent, %d served, %d of them twice", r.Load.Sent, served, r.Replayed)
			}
			if len(r.Load.Sessions) != len(p.kept()) {
				t.Fatalf("%d sessions", len(r.Load.Sessions))
			}
			for _, s := range r.Load.Sessions {
				least, most := 3, 6
				if s.Session == "silent" {
					least, most = 1, 1
				}
				if s.How != "kept" || s.At < duration || s.Messages < least || s.Messages > most || s.Pod == "" {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}
