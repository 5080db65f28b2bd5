package main

import (
	"context"
	"strings"
	"time"

	"lameduck/drain"
	"lameduck/drain/kube"
	"lameduck/netns"
)

// buildDiscovery makes what asks the API server. Nothing is asked yet, and no connection made.
func (s *sidecar) buildDiscovery(o kube.Options, getenv func(string) string) {
	o.Pod = kube.Pod{Name: getenv("POD_NAME"), UID: getenv("POD_UID")}
	o.Find = func() (kube.Account, error) { return kube.InCluster(getenv, kube.Mounts()) }
	o.Addresses = netns.Addresses
	o.SetEnvoys, o.SetPeers = s.drain.SetEnvoys, s.taker.SetPeers
	o.Degrade = func(format string, args ...any) { s.drain.Degrade(false, format, args...) }
	o.Logger = s.logger
	s.kube = kube.New(o)
	if !s.kube.Asks() {
		return
	}
	if _, err := o.Find(); err != nil {
		s.logger.Warn("the API server cannot be asked in a drain", "error", err)
	}
}

// lookup reads an environment; of a name that is there twice the last one counts.
func lookup(env []string) func(string) string {
	values := make(map[string]string, len(env))
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	return func(name string) string { return values[name] }
}

// startDiscovery asks the API server from the trigger on.
func (s *sidecar) startDiscovery(ctx context.Context) {
	if !s.kube.Asks() {
		return
	}
	s.start(ctx, "discovery", func(ctx context.Context) error {
		select {
		case <-s.drain.Begun():
			return s.kube.Run(ctx)
		case <-ctx.Done():
			return nil
		}
	})
}

// eventTimeout bounds the Event: at the deadline the kubelet's SIGKILL is a second away.
const eventTimeout = 500 * time.Millisecond

func (s *sidecar) leaveEvent(w drain.LastWords) {
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	if err := s.kube.Tell(ctx, w); err != nil {
		s.logger.Info("no Event is left on the pod", "error", err)
	}
}
