package main

import (
	"context"
	"net/netip"
	"slices"

	"lameduck/drain/admin"
	"lameduck/netns"
)

// startControl serves the control sockets: that of the pod, which in the node's network would be every pod's there, and
// that of this container, which the own hook asks first.
func (s *sidecar) startControl(ctx context.Context, nodes []netip.Addr, places *admin.Places) {
	var names []string
	own, err := admin.OwnName()
	if err == nil {
		names = append(names, own)
	}
	if !inNodesNetwork(nodes) {
		names = append(names, admin.ControlName)
	}
	served := 0
	for _, name := range names {
		var control *admin.Control
		if control, err = admin.ListenControl(name, s.drain, places, s.logger); err != nil {
			s.logger.Warn("control socket", "error", err)
			continue
		}
		served++
		s.start(ctx, "control socket", control.Run)
	}
	if served == 0 {
		s.work.Go(func() {
			s.drain.Degrade(false, "no control socket (%v): `lameduck drain` cannot start the drain, SIGTERM does", err)
		})
	}
}

// inNodesNetwork tells whether an address of the node is one of this network namespace (hostNetwork).
func inNodesNetwork(nodes []netip.Addr) bool {
	own, err := netns.Addresses()
	return err == nil && slices.ContainsFunc(nodes, func(a netip.Addr) bool { return slices.Contains(own, a.Unmap()) })
}
