package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// PodStory is what was seen of a pod.
type PodStory struct {
	Name, IP string
	// Deleted is when it began to end, Gone when it had ended.
	Deleted, Gone time.Time
	// LastWords is what lameduck left as its termination message.
	LastWords string
	// Containers tell how each of its containers was last seen.
	Containers map[string]ContainerState
}

// ContainerState is a container as the kubelet reports it.
type ContainerState struct {
	Restarts int
	// ExitCode and Finished are of its last run; Finished is zero while that runs.
	ExitCode int
	Finished time.Time
}

// EndedAfter is the time from a pod's deletion to its end; false if it has not ended.
func (p PodStory) EndedAfter() (time.Duration, bool) {
	return p.Gone.Sub(p.Deleted), !p.Gone.IsZero() && !p.Deleted.IsZero()
}

// Watch follows the pods of the namespace of backends.
type Watch struct {
	mu     sync.Mutex
	pods   map[string]PodStory
	change chan struct{}
	ended  chan error
}

// podEvent is an event of the API server's watch, as far as it matters here.
type podEvent struct {
	Type   string
	Object struct {
		Metadata struct {
			Name              string
			DeletionTimestamp *time.Time
		}
		Status struct {
			PodIP                                    string
			ContainerStatuses, InitContainerStatuses []containerStatus
		}
	}
}

type containerStatus struct {
	Name         string
	RestartCount int
	State        struct {
		Terminated *struct {
			ExitCode   int
			FinishedAt time.Time
			Message    string
		}
	}
}

// WatchPods starts a watch that ends with ctx.
func (c *Cluster) WatchPods(ctx context.Context) (*Watch, error) {
	w := &Watch{pods: make(map[string]PodStory), change: make(chan struct{}), ended: make(chan error, 1)}
	cmd := c.Command(ctx, c.Parts.Kube, "kubectl", "get", "--raw", "/api/v1/namespaces/"+Namespace+"/pods?watch=true")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		err := w.follow(json.NewDecoder(out))
		_ = cmd.Wait()
		w.ended <- fmt.Errorf("the watch of pods has ended: %w %s", err, said.String())
	}()
	return w, nil
}

func (w *Watch) follow(events *json.Decoder) error {
	for {
		var e podEvent
		if err := events.Decode(&e); err != nil {
			return err
		}
		w.see(e, time.Now())
	}
}

func (w *Watch) see(e podEvent, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	meta, status := e.Object.Metadata, e.Object.Status
	p := w.pods[meta.Name]
	p.Name = meta.Name
	if status.PodIP != "" {
		p.IP = status.PodIP
	}
	if meta.DeletionTimestamp != nil && p.Deleted.IsZero() {
		p.Deleted = now
	}
	if e.Type == "DELETED" {
		p.Gone = now
	}
	p.Containers = make(map[string]ContainerState)
	for _, s := range append(status.InitContainerStatuses, status.ContainerStatuses...) {
		state := ContainerState{Restarts: s.RestartCount}
		if t := s.State.Terminated; t != nil {
			state.ExitCode, state.Finished = t.ExitCode, t.FinishedAt
			if s.Name == "lameduck" && t.Message != "" {
				p.LastWords = t.Message
			}
		}
		p.Containers[s.Name] = state
	}
	w.pods[meta.Name] = p
	close(w.change)
	w.change = make(chan struct{})
}

// Pod is what has been seen of a pod.
func (w *Watch) Pod(name string) PodStory {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[name]
}

// Backend is what has been seen of the pods of a backend.
func (w *Watch) Backend(name string) []PodStory {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pods []PodStory
	for pod, story := range w.pods {
		if strings.HasPrefix(pod, name+"-") {
			pods = append(pods, story)
		}
	}
	return pods
}

// Until waits until what has been seen is as hoped for.
func (w *Watch) Until(ctx context.Context, hope func() bool) error {
	for {
		w.mu.Lock()
		change := w.change
		w.mu.Unlock()
		if hope() {
			return nil
		}
		select {
		case <-change:
		case err := <-w.ended:
			w.ended <- err
			return err
		case <-ctx.Done():
			return errors.New("what was waited for did not come to the pods in time")
		}
	}
}
