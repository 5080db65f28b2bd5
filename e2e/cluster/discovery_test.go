package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lameduck/e2e/cluster"
)

// asks are the flags and the account of a lameduck that asks the API server for Envoys and peers.
func asks(b cluster.Backend, account string) cluster.Backend {
	b.Native, b.Relay, b.Account, b.Lameduck = true, "auto", account, []string{cluster.EnvoySlices}
	return b
}

// tryOnce deploys a fleet and ends one pod of each backend, with a control plane that is 3 s late.
func tryOnce(t *testing.T, action cluster.Action, backends ...cluster.Backend) []cluster.Row {
	t.Helper()
	got, err := newFleet(t, backends...).Try(t.Context(), cluster.Trial{Action: action, Lag: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	rows.Lock()
	defer rows.Unlock()
	rows.all = append(rows.all, got...)
	return got
}

// callsOf are the calls of a row's ended pods.
func callsOf(t *testing.T, r cluster.Row) []cluster.Call {
	t.Helper()
	all, err := here.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var own []cluster.Call
	for _, call := range all {
		for _, p := range r.Pods {
			if call.Pod == p.Name {
				own = append(own, call)
			}
		}
	}
	return own
}

// deleteAndCut deletes a pod, and takes the API server from it: from the backend down before, from the backend lost 2 s
// into the drain, from the others not at all.
func deleteAndCut() cluster.Action {
	action := cluster.DeletePod()
	action.Name = "delete, API server goes"
	deletePod := action.Do
	action.Do = func(ctx context.Context, c *cluster.Cluster, backend string, pods []string) error {
		if strings.HasPrefix(backend, "down") {
			if err := c.Cut(ctx, pods[0]); err != nil {
				return err
			}
		}
		if err := deletePod(ctx, c, backend, pods); err != nil {
			return err
		}
		if strings.HasPrefix(backend, "lost") {
			<-time.After(2 * time.Second)
			return c.Cut(ctx, pods[0])
		}
		return nil
	}
	return action
}

// TestC20DrainGoesOnWithoutTheAPIServer: peers and Envoys come from the API server where that may be asked, and nothing is
// lost where it may not, or where it goes in the middle of a drain.
func TestC20DrainGoesOnWithoutTheAPIServer(t *testing.T) {
	t.Cleanup(func() {
		if err := here.Mend(background()); err != nil {
			t.Error(err)
		}
	})
	got := tryOnce(t, deleteAndCut(),
		asks(cluster.Backend{Name: "auto", Title: "relay-to auto"}, "lameduck"),
		cluster.Backend{Name: "service", Title: "relay-to service/NAME", Native: true, Relay: "service", Account: "lameduck"},
		asks(cluster.Backend{Name: "forbidden", Title: "forbidden, hold hook", Hold: true}, "stranger"),
		asks(cluster.Backend{Name: "tokenless", Title: "no token, hold hook", Hold: true}, ""),
		asks(cluster.Backend{Name: "down", Title: "API server down, hold hook", Hold: true}, "lameduck"),
		asks(cluster.Backend{Name: "lost", Title: "API server lost in the drain, hold hook", Hold: true}, "lameduck"),
	)
	says := []string{"", "", "forbidden", "no service account token", "connection refused", "no longer heard"}
	for i, r := range got {
		t.Run(r.Backend.Title, func(t *testing.T) {
			t.Logf("last words: %s", r.Pods[0].LastWords)
			if says[i] == "" {
				losesWhatIsInFlight(t, r)
				if !strings.Contains(r.Pods[0].LastWords, `"degraded":[]`) {
					t.Error("the last words say that something was missing")
				}
				atMostOneListAndWatch(t, r)
				hasEvent(t, r.Pods[0].Name)
				return
			}
			losesNothing(t, r)
			if !strings.Contains(r.Pods[0].LastWords, says[i]) {
				t.Errorf("the last words do not say %q", says[i])
			}
		})
	}
}

// hang is how long the API server answers nobody. The drain's end falls into it, and it is too short for Envoy Gateway to
// lose its lease.
const hang = 7 * time.Second

// TestC20DrainEndsWhileTheAPIServerHangs: its process is stopped 4 s into a drain of 8 s, and takes connections and
// requests without a word.
func TestC20DrainEndsWhileTheAPIServerHangs(t *testing.T) {
	t.Cleanup(func() {
		if err := here.ContinueAPIServer(background()); err != nil {
			t.Error(err)
		}
	})
	stopped := make(chan time.Time, 1)
	action := cluster.DeletePod()
	deletePod := action.Do
	action.Name = "delete, API server hangs"
	action.Do = func(ctx context.Context, c *cluster.Cluster, backend string, pods []string) error {
		if err := deletePod(ctx, c, backend, pods); err != nil {
			return err
		}
		<-time.After(4 * time.Second)
		if err := c.StopAPIServer(ctx); err != nil {
			return err
		}
		stopped <- time.Now()
		<-time.After(hang)
		return c.ContinueAPIServer(ctx)
	}
	backend := asks(cluster.Backend{Name: "hangs", Title: "API server hangs in the drain, hold hook", Hold: true}, "lameduck")
	backend.Lameduck = append(backend.Lameduck, "--min=0s")
	r := tryOnce(t, action, backend)[0]
	t.Logf("last words: %s", r.Pods[0].LastWords)
	drainsUnseen(t, r)
	// The kubelet tells in whole seconds when a container ended.
	ended, at := r.Pods[0].Containers["lameduck"].Finished, <-stopped
	if ended.Before(at.Add(-time.Second)) || ended.After(at.Add(hang-time.Second)) {
		t.Errorf("lameduck ended at %v: the API server was stopped from %v on, for %v", ended, at, hang)
	}
}

// atMostOneListAndWatch holds a drain to one LIST and one WATCH for each thing that it asks for.
func atMostOneListAndWatch(t *testing.T, r cluster.Row) {
	t.Helper()
	count := make(map[string]int)
	for _, call := range callsOf(t, r) {
		t.Logf("%.3f s after the action: %s %s -> %d", call.At.Sub(r.At).Seconds(), call.Verb, call.URI, call.Status)
		if call.At.Before(r.Pods[0].Deleted.Add(-soon)) {
			t.Errorf("a call before the drain: %s %s", call.Verb, call.URI)
		}
		count[fmt.Sprintf("%s %s in %s", call.Verb, call.Resource, call.Namespace)]++
	}
	if count["list endpointslices in "+cluster.Namespace] == 0 {
		t.Error("the peers were not asked for")
	}
	for what, n := range count {
		if n > 1 && !strings.HasPrefix(what, "create events") {
			t.Errorf("%d times: %s", n, what)
		}
	}
}

// hasEvent looks for the pod's last words among the Events.
func hasEvent(t *testing.T, pod string) {
	t.Helper()
	out, err := here.Kubectl(t.Context(), "get", "events", "-n", cluster.Namespace, "--field-selector",
		"involvedObject.name="+pod+",source=lameduck", "-o", `jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}`)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "Drained: quiet") {
		t.Errorf("the Events of the pod are:\n%s", out)
	}
}

// TestIdleSidecarAsksNothing: in 5 minutes and more, a lameduck that may ask the API server, and is told to, asks nothing.
func TestIdleSidecarAsksNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pods, err := here.Pods(ctx, cluster.Hello().Name)
	if err != nil || len(pods) != 3 {
		t.Fatalf("pods %v: %v", pods, err)
	}
	started, err := here.Kubectl(ctx, "get", "pod", "-n", cluster.Namespace, pods[0], "-o", "jsonpath={.status.startTime}")
	if err != nil {
		t.Fatal(err)
	}
	start, err := time.Parse(time.RFC3339, started)
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(start.Add(5 * time.Minute)))
	calls, err := here.Calls(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		if strings.HasPrefix(call.Pod, cluster.Hello().Name+"-") {
			t.Errorf("%v: %s %s", call.At, call.Verb, call.URI)
		}
	}
	t.Logf("idle for %v, and nothing was asked", time.Since(start).Round(time.Second))
}
