package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lameduck/e2e/cluster"
)

// setup is a way of running a backend, and what may be lost when its pods end; held: lameduck holds them.
type setup struct {
	backend cluster.Backend
	check   func(*testing.T, cluster.Row)
	held    bool
}

func setups(t *testing.T) []setup {
	t.Helper()
	component, err := cluster.Manifests(t.Context(), "component")
	if err != nil {
		t.Fatal(err)
	}
	return []setup{
		{cluster.Backend{Name: "nothing", Title: "nothing"}, timesOut, false},
		{cluster.Backend{Name: "sleep", Title: "preStop sleep 15", Sleep: 15}, losesNothing, false},
		{cluster.Backend{Name: "hold", Title: "native sidecar, hold hook", Native: true, Hold: true}, drainsUnseen, true},
		{cluster.Backend{Name: "relay", Title: "native sidecar, relay", Native: true, Relay: "static"}, losesWhatIsInFlight, false},
		{cluster.Backend{Name: "retries", Title: "native sidecar, relay, Envoy retries", Native: true, Relay: "static", Retries: true}, losesOnlyWhatIsInFlight, false},
		{cluster.Backend{Name: "plain", Title: "plain container, hold hook", Plain: true, Hold: true}, drainsUnseen, true},
		{cluster.Backend{Name: "plain-relay", Title: "plain container, relay", Plain: true, Relay: "static"}, losesWhatIsInFlight, false},
		{cluster.Backend{Name: "component", Title: "kustomize component", Component: component}, drainsUnseen, true},
		{cluster.Backend{Name: "policy", Title: "admission policy", Labels: cluster.Inject()}, drainsUnseen, true},
	}
}

// newFleet deploys backends, and removes them with the test.
func newFleet(t *testing.T, backends ...cluster.Backend) *cluster.Fleet {
	t.Helper()
	fleet, err := here.NewFleet(t.Context(), backends...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Remove(background()); err != nil {
			t.Error(err)
		}
	})
	return fleet
}

// TestPodEndsUnseen ends pods in each of the ways that a cluster has, with a control plane that is late and without.
func TestPodEndsUnseen(t *testing.T) {
	var backends []cluster.Backend
	all := setups(t)
	for _, s := range all {
		backends = append(backends, s.backend)
	}
	fleet := newFleet(t, backends...)
	held, late := 0, 0
	for _, trial := range []struct {
		action cluster.Action
		lag    time.Duration
	}{
		{cluster.DeletePod(), 0},
		{cluster.DeletePod(), 3 * time.Second},
		{cluster.DeletePod(), 10 * time.Second},
		{cluster.Restart(), 3 * time.Second},
		{cluster.ScaleDown(), 3 * time.Second},
		{cluster.Evict(), 3 * time.Second},
	} {
		t.Run(fmt.Sprintf("%s, %v late", trial.action.Name, trial.lag), func(t *testing.T) {
			got, err := fleet.Try(t.Context(), cluster.Trial{Action: trial.action, Lag: trial.lag})
			if err != nil {
				t.Fatal(err)
			}
			rows.Lock()
			rows.all = append(rows.all, got...)
			rows.Unlock()
			for i, s := range all {
				if s.held {
					held++
				}
				if s.held && got[i].EndedAfter() > soonest(got[i])+3*soon {
					late++
					t.Log("later than need be:\n" + describe(got[i]))
				}
				t.Run(s.backend.Title, func(t *testing.T) {
					s.check(t, got[i])
					if t.Failed() {
						t.Log(describe(got[i]))
					}
				})
			}
		})
	}
	// A kubelet that is too busy to keep the rhythm of its probes can have lameduck take one for a client's.
	if late*10 > held {
		t.Errorf("the pods of %d of %d rows ended later than they had to", late, held)
	}
}

// timesOut is the proof that the fault is there. Without a lag a cluster as small as this one is too quick for it.
func timesOut(t *testing.T, r cluster.Row) {
	if r.Lag > 0 && r.Kind("timeout") == 0 {
		t.Errorf("no request timed out: the fault did not show, %d failed", r.Failed())
	}
}

func losesNothing(t *testing.T, r cluster.Row) {
	if r.Failed() > 0 {
		t.Errorf("%d of %d requests failed: %v", r.Failed(), r.Load.Sent, r.Load.Failures[:min(10, r.Failed())])
	}
}

// drainsUnseen: and it is lameduck's doing.
func drainsUnseen(t *testing.T, r cluster.Row) {
	losesNothing(t, r)
	for _, p := range r.Pods {
		if p.LastWords == "" {
			t.Errorf("%s left no last words", p.Name)
		}
	}
}

// soonest is when a held pod may end: after --min, or the quiet window after its last request.
func soonest(r cluster.Row) time.Duration { return max(10*time.Second, r.Lagged()+5*time.Second) }

// inFlight counts what an application that exits at once has taken with it: no sidecar can save that. Nothing else may be
// cut, and nothing may time out.
func inFlight(t *testing.T, r cluster.Row) int {
	t.Helper()
	cut := r.Flagged("UC")
	for _, f := range cut {
		sent := r.Load.Start.Add(f.At)
		if !slices.ContainsFunc(r.Pods, func(p cluster.PodStory) bool { return sent.Sub(p.Deleted).Abs() < soon }) {
			t.Errorf("cut, though no application was ending: %+v", f)
		}
	}
	if r.Kind("timeout") > 0 {
		t.Errorf("%d requests timed out", r.Kind("timeout"))
	}
	return len(cut)
}

// losesWhatIsInFlight allows for what is in flight, and for what the kernel refuses until lameduck's own hook has come. lameduck
// counts that, but may miss the first one of each pod.
func losesWhatIsInFlight(t *testing.T, r cluster.Row) {
	refused, _ := r.Refused()
	if cut := inFlight(t, r); r.Failed() > cut+refused+len(r.Pods) {
		t.Errorf("%d of %d requests failed, %d of them in flight, and lameduck counted %d refused", r.Failed(), r.Load.Sent, cut, refused)
	}
}

// losesOnlyWhatIsInFlight: what is refused is tried again on another pod.
func losesOnlyWhatIsInFlight(t *testing.T, r cluster.Row) {
	if cut := inFlight(t, r); r.Failed() > cut {
		t.Errorf("%d of %d requests failed, %d of them in flight: %v", r.Failed(), r.Load.Sent, cut, r.Load.Kinds())
	}
}

// describe tells a row's story.
func describe(r cluster.Row) string {
	var b strings.Builder
	for i, f := range r.Load.Failures {
		if i == 10 {
			b.WriteString("  ...\n")
			break
		}
		fmt.Fprintf(&b, "  request %06d %s, %.3f s after the action, took %v\n", f.ID, f.Kind, r.Load.Start.Add(f.At).Sub(r.At).Seconds(), f.Took)
	}
	for _, p := range r.Pods {
		fmt.Fprintf(&b, "%s (%s) deleted %.3f s after the action, gone %.3f s after that\n  %s\n",
			p.Name, p.IP, p.Deleted.Sub(r.At).Seconds(), p.Gone.Sub(p.Deleted).Seconds(), p.LastWords)
	}
	return b.String()
}
