package cluster_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"lameduck/e2e/cluster"
	"lameduck/e2e/cluster/witness"
)

// TestC06LivenessRestartDoesNotDrain: the kubelet runs the hold hook, too, when it restarts a container whose liveness
// probe failed.
func TestC06LivenessRestartDoesNotDrain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	watch, err := here.WatchPods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	live := cluster.Object{"livenessProbe": cluster.Object{
		"httpGet": cluster.Object{"port": 8001, "path": "/live"}, "periodSeconds": 1, "failureThreshold": 1,
	}}
	for key, value := range cluster.HookGet(8420, "/hold") {
		live[key] = value
	}
	logs, err := here.StartPod(ctx, "liveness", cluster.PodSpec(60,
		[]cluster.Object{cluster.Sidecar(cluster.Lameduck(60, nil, nil))},
		[]cluster.Object{cluster.Witness("app", []string{"-listen=:8001", "-sick=4s"}, live)}, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deletePod(t, "liveness") })
	// The kubelet kills it after its first failed probe: the last one that it answered.
	term, ok := logs.Wait(ctx, "app", witness.Term)
	if !ok {
		t.Fatal("the kubelet did not restart the application")
	}
	var failed time.Time
	for _, l := range logs.All() {
		if l.Container == "app" && l.Text == witness.Answered+"/live" && l.At.Before(term.At) {
			failed = l.At
		}
	}
	if held := term.At.Sub(failed); held < 4*time.Second || held > 5500*time.Millisecond+soon {
		t.Errorf("SIGTERM came %v after the failed probe, and the hold returns after 5 s", held)
	}
	if err := watch.Until(ctx, func() bool { return watch.Pod("liveness").Containers["app"].Restarts > 0 }); err != nil {
		t.Fatal(err)
	}
	ip := watch.Pod("liveness").IP
	if got := here.Get(ctx, "http://"+ip+":8420/healthz"); got != "200" {
		t.Errorf("after the restart lameduck's health is %s", got)
	}
	status, err := here.Kubectl(ctx, "exec", "-n", cluster.Namespace, "liveness", "-c", "lameduck", "--", "/lameduck", "status", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.ReplaceAll(status, " ", ""), `"phase":"serving"`) {
		t.Errorf("after the restart lameduck is not serving:\n%s", status)
	}
}

// deletePod removes a pod that a test has left.
func deletePod(t *testing.T, name string) {
	t.Helper()
	if _, err := here.Kubectl(background(), "delete", "pod", "-n", cluster.Namespace, "--grace-period=1", "--wait=false", name); err != nil {
		t.Error(err)
	}
}

// TestC22PlainContainerLeavesLast: SIGTERM reaches the application and lameduck together.
func TestC22PlainContainerLeavesLast(t *testing.T) {
	e := endPod(t, "plain", cluster.PodSpec(40, nil, []cluster.Object{
		cluster.Witness("app", []string{"-listen=:8001", "-linger=20s"}, nil), cluster.Lameduck(40, nil, nil),
	}, nil))
	app, lameduck := e.story.Containers["app"], e.story.Containers["lameduck"]
	if app.Finished.IsZero() || lameduck.Finished.Before(app.Finished) {
		e.Errorf("the application ended at %v, lameduck at %v", app.Finished, lameduck.Finished)
	}
	if after := e.story.Gone.Sub(e.deleted); after < 20*time.Second || after > 20*time.Second+4*soon {
		e.Errorf("the pod was gone after %v, and the application takes 20 s", after)
	}
	if lameduck.ExitCode != 0 {
		e.Errorf("lameduck's exit status is %d", lameduck.ExitCode)
	}
}

// TestLastWordsAreTheTerminationMessage: kubectl shows them of a pod that has ended.
func TestLastWordsAreTheTerminationMessage(t *testing.T) {
	e := endPod(t, "words", cluster.PodSpec(30,
		[]cluster.Object{cluster.Sidecar(cluster.Lameduck(30, nil, nil))},
		[]cluster.Object{cluster.Witness("app", []string{"-listen=:8001"}, cluster.HookGet(8420, "/hold"))}, nil))
	var words struct{ Reason, Trigger string }
	if err := json.Unmarshal([]byte(e.story.LastWords), &words); err != nil {
		e.Fatalf("the termination message %q: %v", e.story.LastWords, err)
	}
	if words.Reason != "quiet" || words.Trigger != "drain" {
		e.Errorf("the last words are %+v", words)
	}
	if after := e.story.Gone.Sub(e.deleted); after < 10*time.Second || after > 10*time.Second+3*soon {
		e.Errorf("a pod without traffic was gone after %v, and --min is 10 s", after)
	}
}

// TestJobWithSidecarCompletes: a native sidecar does not keep a Job from its end, and leaves with status 0.
func TestJobWithSidecarCompletes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	spec := cluster.PodSpec(30,
		[]cluster.Object{cluster.Sidecar(cluster.Lameduck(30, nil, nil))},
		[]cluster.Object{cluster.Witness("work", []string{"-run=2s"}, nil)}, cluster.Object{"restartPolicy": "Never"})
	job, err := json.Marshal(cluster.Object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": cluster.Object{"name": "job", "namespace": cluster.Namespace},
		"spec": cluster.Object{"backoffLimit": 0, "template": cluster.Object{"spec": spec}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := here.Apply(ctx, string(job)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := here.Kubectl(background(), "delete", "job", "-n", cluster.Namespace, "--wait=false", "job"); err != nil {
			t.Error(err)
		}
	})
	start := time.Now()
	if _, err := here.Kubectl(ctx, "wait", "-n", cluster.Namespace, "--for=condition=Complete", "--timeout=60s", "job/job"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("a Job of 2 s took %v: nothing ever listened in it, so lameduck leaves at SIGTERM", took)
	}
	out, err := here.Kubectl(ctx, "get", "pods", "-n", cluster.Namespace, "-l", "batch.kubernetes.io/job-name=job", "-o",
		"jsonpath={.items[0].status.initContainerStatuses[0].state.terminated.exitCode} {.items[0].status.phase}")
	if err != nil {
		t.Fatal(err)
	}
	if out != "0 Succeeded" {
		t.Errorf("lameduck's exit status and the pod's phase are %q", out)
	}
}

// usage is what the kubelet says of a container.
type usage struct {
	at  time.Time
	cpu time.Duration
	rss float64 // bytes
}

// TestIdleSidecarIsSmall: what an idle lameduck uses, as the kubelet counts it.
func TestIdleSidecarIsSmall(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, err := here.StartPod(ctx, "idle", cluster.PodSpec(30,
		[]cluster.Object{cluster.Sidecar(cluster.Lameduck(30, nil, nil))},
		[]cluster.Object{cluster.Witness("app", []string{"-listen=:8001"}, nil)}, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deletePod(t, "idle") })
	first := usageOf(t, "idle", "lameduck", time.Time{})
	last := usageOf(t, "idle", "lameduck", first.at.Add(30*time.Second))
	share := (last.cpu - first.cpu).Seconds() / last.at.Sub(first.at).Seconds()
	t.Logf("idle for %v: %.4f %% of a core, RSS %.1f MB", last.at.Sub(first.at), 100*share, last.rss/1e6)
	if share > 0.001 {
		t.Errorf("an idle lameduck uses %.3f %% of a core", 100*share)
	}
	if last.rss > 20e6 {
		t.Errorf("an idle lameduck's RSS is %.0f bytes", last.rss)
	}
}

// usageOf waits for the kubelet's figures of a container that are from a time or later.
func usageOf(t *testing.T, pod, container string, from time.Time) usage {
	t.Helper()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for watchdog := time.After(90 * time.Second); ; {
		out, err := here.Kubectl(t.Context(), "get", "--raw", "/api/v1/nodes/node/proxy/metrics/cadvisor")
		if err != nil {
			t.Fatal(err)
		}
		if u := parseUsage(out, pod, container); u.rss > 0 && u.at.After(from) {
			return u
		}
		select {
		case <-again.C:
		case <-watchdog:
			t.Fatalf("the kubelet has no figures of %s in %s", container, pod)
		}
	}
}

// parseUsage reads the kubelet's metrics: NAME{LABELS} VALUE MILLISECONDS.
func parseUsage(metrics, pod, container string) usage {
	var u usage
	for line := range strings.Lines(metrics) {
		name, rest, _ := strings.Cut(line, "{")
		labels, values, _ := strings.Cut(rest, "} ")
		if !strings.Contains(labels, `container="`+container+`"`) || !strings.Contains(labels, `pod="`+pod+`"`) {
			continue
		}
		var value float64
		var milliseconds int64
		if _, err := fmt.Sscan(values, &value, &milliseconds); err != nil {
			continue
		}
		switch name {
		case "container_memory_rss":
			u.rss = value
		case "container_cpu_usage_seconds_total":
			u.cpu, u.at = time.Duration(value*float64(time.Second)), time.UnixMilli(milliseconds)
		}
	}
	return u
}
