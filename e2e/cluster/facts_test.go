package cluster_test

import (
	"context"
	"testing"
	"time"

	"lameduck/e2e/cluster"
	"lameduck/e2e/cluster/witness"
)

// The tests here are of the kubelet: facts that lameduck leans on.

// ending is the end of a pod.
type ending struct {
	*testing.T
	logs *cluster.Logs
	// deleted is when the deletion was asked for, story what became of the pod.
	deleted time.Time
	story   cluster.PodStory
}

// endPod starts a pod, deletes it, and returns when it is gone.
func endPod(t *testing.T, name string, spec cluster.Object) ending {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	watch, err := here.WatchPods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := here.StartPod(ctx, name, spec)
	if err != nil {
		t.Fatal(err)
	}
	e := ending{T: t, logs: logs, deleted: time.Now()}
	if _, err := here.Kubectl(ctx, "delete", "pod", "-n", cluster.Namespace, "--wait=false", name); err != nil {
		t.Fatal(err)
	}
	if err := watch.Until(ctx, func() bool { return !watch.Pod(name).Gone.IsZero() }); err != nil {
		t.Fatal(err)
	}
	logs.WaitEnd(ctx)
	e.story = watch.Pod(name)
	t.Cleanup(func() {
		if t.Failed() {
			for _, l := range logs.All() {
				t.Logf("%7.3f s %s: %s", l.At.Sub(e.deleted).Seconds(), l.Container, l.Text)
			}
		}
	})
	return e
}

// at is when a container said something, from the deletion on; the test fails if it did not.
func (e ending) at(container, what string) time.Duration {
	e.Helper()
	line, ok := e.logs.Find(container, what)
	if !ok {
		e.Fatalf("%s did not say %q", container, what)
	}
	return line.At.Sub(e.deleted)
}

// soon is how far apart things may be that the kubelet does at once, on a busy machine.
const soon = 1500 * time.Millisecond

func hook(port int, path string, length string) cluster.Object {
	return cluster.HookGet(port, path+"?for="+length)
}

// TestHooksStartTogetherAndDelayOnlyTheirOwnContainer: all preStop hooks begin at the deletion, the sidecar's too; a
// container without one gets its SIGTERM at once; one with a hook after the hook; the sidecar after the last application.
func TestHooksStartTogetherAndDelayOnlyTheirOwnContainer(t *testing.T) {
	e := endPod(t, "order", cluster.PodSpec(30,
		[]cluster.Object{cluster.Sidecar(cluster.Witness("first", []string{"-listen=:8001"}, hook(8001, "/first", "0s"))),
			cluster.Sidecar(cluster.Witness("second", []string{"-listen=:8002"}, hook(8002, "/second", "0s")))},
		[]cluster.Object{
			cluster.Witness("bare", []string{"-listen=:8003"}, nil),
			cluster.Witness("held", []string{"-listen=:8004", "-linger=2s"}, hook(8004, "/held", "3s")),
		}, nil))
	start := e.at("held", witness.Asked+"/held")
	for container, what := range map[string]string{
		"first": witness.Asked + "/first", "second": witness.Asked + "/second", "bare": witness.Term,
	} {
		if apart := (e.at(container, what) - start).Abs(); apart > soon {
			e.Errorf("%s: %s is %v from the start of another container's hook", container, what, apart)
		}
	}
	hooked, termed := e.at("held", witness.Answered+"/held"), e.at("held", witness.Term)
	if termed < hooked || termed > hooked+soon {
		e.Errorf("SIGTERM at %v, its hook's end at %v", termed, hooked)
	}
	ended := e.at("held", witness.Ends)
	second, first := e.at("second", witness.Term), e.at("first", witness.Term)
	if second < ended || first < second {
		e.Errorf("the application ended at %v, the sidecars' SIGTERM came at %v (the last) and %v (the first)", ended, second, first)
	}
}

// TestHookAndApplicationShareTheGracePeriod: what a hook takes of the grace period the application lacks.
func TestHookAndApplicationShareTheGracePeriod(t *testing.T) {
	e := endPod(t, "grace", cluster.PodSpec(8, nil,
		[]cluster.Object{cluster.Witness("app", []string{"-listen=:8001", "-linger=-1s"}, hook(8001, "/hook", "5s"))}, nil))
	if term := e.at("app", witness.Term); term < 5*time.Second || term > 5*time.Second+soon {
		e.Errorf("SIGTERM at %v, not when the hook of 5 s had ended", term)
	}
	if gone := e.story.Gone.Sub(e.deleted); gone < 7*time.Second || gone > 8*time.Second+2*soon {
		e.Errorf("a pod with a grace period of 8 s, whose application is deaf, was gone after %v", gone)
	}
}

// TestHookMayTakeTheWholeGracePeriod: the kubelet has no time-out of its own for an HTTP hook. At the end comes
// SIGTERM, and 2 s later SIGKILL.
func TestHookMayTakeTheWholeGracePeriod(t *testing.T) {
	e := endPod(t, "hook", cluster.PodSpec(10, nil,
		[]cluster.Object{cluster.Witness("app", []string{"-listen=:8001"}, hook(8001, "/hook", "60s"))}, nil))
	if term := e.at("app", witness.Term); term < 9*time.Second || term > 10*time.Second+soon {
		e.Errorf("SIGTERM at %v, with a hook longer than the grace period of 10 s", term)
	}
}

// TestReadinessProbesOutliveTheirContainer: while a pod ends the kubelet goes on asking for the readiness of a container
// that has ended, at its old port, once a period. Whoever counts refused connections meets them there.
func TestReadinessProbesOutliveTheirContainer(t *testing.T) {
	ready := cluster.Object{"readinessProbe": cluster.Object{
		"httpGet": cluster.Object{"port": 8001, "path": "/ready"}, "periodSeconds": 1,
	}}
	e := endPod(t, "readiness", cluster.PodSpec(30,
		[]cluster.Object{cluster.Sidecar(cluster.Witness("heir", []string{"-listen=:8001", "-late", "-linger=6s"}, nil))},
		[]cluster.Object{cluster.Witness("app", []string{"-listen=:8001"}, ready)}, nil))
	asked := 0
	for _, l := range e.logs.All() {
		if l.Container == "heir" && l.Text == witness.Asked+"/ready" {
			asked++
		}
	}
	if asked < 3 || asked > 8 {
		e.Errorf("asked %d times in the 6 s after the container's end, with a period of 1 s", asked)
	}
}

// TestAddressOutlivesEveryContainer: the network namespace goes last. While a sidecar lives the kernel refuses
// connections to the application's port; afterwards nobody answers there at all.
func TestAddressOutlivesEveryContainer(t *testing.T) {
	ctx := t.Context()
	seen := make(chan string, 1)
	t.Parallel()
	watch, err := here.WatchPods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := here.StartPod(ctx, "address", cluster.PodSpec(30,
		[]cluster.Object{cluster.Sidecar(cluster.Witness("sidecar", []string{"-linger=3s"}, nil))},
		[]cluster.Object{cluster.Witness("app", []string{"-listen=:8001"}, nil)}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Until(ctx, func() bool { return watch.Pod("address").IP != "" }); err != nil {
		t.Fatal(err)
	}
	url := "http://" + watch.Pod("address").IP + ":8001/"
	go func() {
		if _, ok := logs.Wait(ctx, "sidecar", witness.Term); ok {
			seen <- here.Get(ctx, url)
		}
	}()
	if _, err := here.Kubectl(ctx, "delete", "pod", "-n", cluster.Namespace, "address"); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "refused" {
		t.Errorf("while the sidecar lived, a connection to the application's port was: %s", got)
	}
	if got := here.Get(ctx, url); got != "timeout" {
		t.Errorf("when the pod had gone, a connection to its address was: %s", got)
	}
}
