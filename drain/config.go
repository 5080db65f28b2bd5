package drain

import (
	"net/netip"
	"slices"
	"time"
)

// Config says how a drain behaves. The zero value watches every port and counts every remote address as Envoy;
// its durations have the defaults of the command line.
type Config struct {
	// Ports are the application's ports; nil stands for every TCP port that the pod listens on, beyond loopback.
	Ports []uint16
	// OwnPorts are lameduck's own: never the application's.
	OwnPorts []uint16
	// Envoy lists the sources; nil stands for any remote address.
	Envoy []netip.Prefix
	// EnvoySlices: further sources come by SetEnvoys. Until they do any remote address is one.
	EnvoySlices bool
	// NodeIPs are the node's addresses, which kubelet probes come from. Default gateways are added at the trigger.
	NodeIPs []netip.Addr
	// Quiet is how long there must have been no activity: 5 s if 0.
	Quiet time.Duration
	// Min is the least time from the trigger to quiet. 0 is 0: the flag has the default.
	Min time.Duration
	// GracePeriod is the pod's terminationGracePeriodSeconds: 30 s if 0.
	GracePeriod time.Duration
	// Reserve is what of the grace period is left to the application's own shutdown: 5 s if 0.
	Reserve time.Duration
	// TrustChecks: when every listed source has been told and is silent for a second, it is quiet.
	TrustChecks bool
	// ObserveOnly: watch and report; hold nothing, take nothing over.
	ObserveOnly bool
}

const (
	// blindHold is how long the hold lasts where the kernel does not show activity: the sleep that people use today.
	blindHold = 25 * time.Second
	// trainLimit is how long after the trigger a train counts that may as well be a lone poller.
	trainLimit = 25 * time.Second
	// exitMargin is what is left of the grace period at the latest exit: the kubelet's SIGKILL must not be what ends us.
	exitMargin = time.Second
	// recentDeath is how long before the trigger a listener may have died and still be taken over.
	recentDeath = 10 * time.Second
	// lateDeath is how late the kernel may tell a listener's death: with a half-open connection, after the SYN-ACK's first
	// timer of 1 s (0.94 s were measured).
	lateDeath = time.Second
	// stuckAfter is how long an accept queue may stay above 0 until the application is called stuck.
	stuckAfter = time.Second
	// toldSilence is how long a told source has to be silent.
	toldSilence = time.Second
)

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&c.Quiet, 5*time.Second)
	set(&c.GracePeriod, 30*time.Second)
	set(&c.Reserve, 5*time.Second)
	return c
}

// holdFor is how long the hold lasts at the most.
func (c Config) holdFor() time.Duration { return max(0, c.GracePeriod-c.Reserve) }

// blindFor is how long it lasts where nothing can be seen.
func (c Config) blindFor() time.Duration { return max(c.Min, min(blindHold, c.holdFor())) }

// appPort tells whether a port may be the application's.
func (c Config) appPort(port uint16) bool {
	if slices.Contains(c.OwnPorts, port) {
		return false
	}
	return len(c.Ports) == 0 || slices.Contains(c.Ports, port)
}

// lists tells whether an address is one of those that have to be told.
func (c Config) lists(a netip.Addr) bool {
	return c.listed() && slices.ContainsFunc(c.Envoy, func(p netip.Prefix) bool { return p.Contains(a) })
}

// listed tells whether every source is known by its address: told can then be complete.
func (c Config) listed() bool {
	for _, p := range c.Envoy {
		if !p.IsSingleIP() {
			return false
		}
	}
	return len(c.Envoy) > 0 || c.EnvoySlices
}
