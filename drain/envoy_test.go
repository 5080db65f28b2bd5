package drain

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// C20: nobody has told who Envoy is, so whoever sends may be.
func TestUntilEnvoysAreKnownAnyRemoteAddressHoldsTheDrain(t *testing.T) {
	w := newWorld(t, Config{EnvoySlices: true, Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}})
	w.trigger()
	last := w.chat(scraper, 20*time.Second)
	w.run(10 * time.Second)
	w.wantReleased(last+5*time.Second, half)
}

func TestLearnedEnvoysAloneHoldTheDrain(t *testing.T) {
	w := newWorld(t, Config{EnvoySlices: true, Min: time.Second})
	w.trigger()
	last := w.chat(envoy, 4*time.Second)
	w.chat(scraper, 2*time.Second)
	w.next(Envoys{[]netip.Addr{envoy}}) // what the scraper has sent counts no more
	w.chat(scraper, 10*time.Second)
	w.wantReleased(last+5*time.Second, half)
	for _, s := range w.m.Status(w.now, 0, Relay{}).Sources {
		if ignored := s.Ignored != ""; ignored != (s.Address == scraper) {
			t.Errorf("%s: ignored %q", s.Address, s.Ignored)
		}
	}
}

func TestEnvoyThatIsLearnedLateCounts(t *testing.T) {
	w := newWorld(t, Config{EnvoySlices: true, Min: time.Second})
	w.trigger()
	w.next(Envoys{[]netip.Addr{scraper}})
	last := w.chat(envoy, 4*time.Second)
	w.next(Envoys{[]netip.Addr{envoy}}) // the first is no longer listed
	w.run(10 * time.Second)
	w.wantReleased(last+5*time.Second, half)
	w.next(Terminated{})
	if w.m.ledger.isEnvoy(scraper) != true {
		t.Error("an Envoy that has left its slice counts no more, though its requests may still run")
	}
}

func TestEnvoyListedByHandCountsBesideLearnedOnes(t *testing.T) {
	w := newWorld(t, Config{EnvoySlices: true, Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}, Min: time.Second})
	w.trigger()
	w.next(Envoys{[]netip.Addr{netip.MustParseAddr("10.0.9.2")}})
	last := w.chat(envoy, 8*time.Second)
	w.run(10 * time.Second)
	w.wantReleased(last+5*time.Second, half)
}

func TestPodInTheNodesNetworkTakesNoPort(t *testing.T) {
	for _, test := range []struct {
		name  string
		nodes []netip.Addr
		arms  int
	}{
		{"hostNetwork", []netip.Addr{appAddr.Addr()}, 0},
		{"hostNetwork, mapped", []netip.Addr{netip.AddrFrom16(appAddr.Addr().As16())}, 0},
		{"a pod of its own", []netip.Addr{node}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, Config{NodeIPs: test.nodes})
			w.trigger()
			if len(w.armed) != test.arms {
				t.Errorf("%d listeners are to be taken over", len(w.armed))
			}
			said := slices.ContainsFunc(w.m.degraded, func(d string) bool { return strings.Contains(d, "hostNetwork") })
			if said != (test.arms == 0) {
				t.Errorf("degraded: %q", w.m.degraded)
			}
		})
	}
}

// chat has a source send uneven requests for some time, and returns when the last of them came, from the beginning.
func (w *world) chat(from netip.Addr, d time.Duration) (last time.Duration) {
	for i := 0; d > 0; i++ {
		last = w.since()
		w.once(from, 300+37*(i*i%11))
		step := min(d, 300*time.Millisecond+time.Duration(i%3)*40*time.Millisecond)
		w.run(step)
		d -= step
	}
	return last
}

// C14, with Envoys that are learned: all that are listed now have to be told.
func TestLearnedEnvoysThatAreToldAreTrusted(t *testing.T) {
	trusting := Config{EnvoySlices: true, Min: 20 * time.Second, GracePeriod: time.Minute, TrustChecks: true}
	second := netip.MustParseAddr("10.0.9.2")
	start := func(t *testing.T, envoys ...netip.Addr) *world {
		w := newWorld(t, trusting)
		w.check(envoy, 1)
		w.trigger()
		if envoys != nil {
			w.next(Envoys{envoys})
		}
		w.run(half)
		w.check(envoy, 1)
		return w
	}
	t.Run("one", func(t *testing.T) {
		w := start(t, envoy)
		w.run(3 * time.Second)
		w.wantReleased(1500*time.Millisecond, half)
	})
	t.Run("another has not been told", func(t *testing.T) {
		w := start(t, envoy, second)
		w.run(10 * time.Second)
		w.wantHeld()
		if text := w.m.Status(w.now, 0, Relay{}).WaitsFor; !strings.Contains(text, "once told: "+second.String()) {
			t.Errorf("waits for %q", text)
		}
		w.next(Envoys{[]netip.Addr{envoy}}) // it has left
		w.run(half)
		w.wantReleased(10500*time.Millisecond, half)
	})
	t.Run("nobody is known", func(t *testing.T) {
		w := start(t)
		w.run(10 * time.Second)
		w.wantHeld()
	})
	t.Run("more have checked than are remembered", func(t *testing.T) {
		w := newWorld(t, trusting)
		for i := range maxCheckers + 1 {
			w.check(netip.AddrFrom4([4]byte{10, 8, byte(i >> 8), byte(i)}), 1)
		}
		w.trigger()
		w.next(Envoys{[]netip.Addr{envoy}})
		w.check(envoy, 1)
		w.run(10 * time.Second)
		w.wantHeld()
		if !slices.ContainsFunc(w.m.degraded, func(d string) bool { return strings.Contains(d, "--trust-checks does nothing") }) {
			t.Errorf("degraded: %q", w.m.degraded)
		}
	})
	for name, past := range map[string]func(w *world){
		"many Envoys have come and gone": func(w *world) {
			for i := range maxCheckers + 1 {
				w.checkOnce(netip.AddrFrom4([4]byte{10, 8, byte(i >> 8), byte(i)}), 1)
				w.later(time.Hour)
			}
		},
		"somebody has asked very often": func(w *world) {
			for p := range uint16(maxUntold) {
				w.checkOnce(scraper, p)
			}
			w.later(time.Hour)
		},
		"somebody asks very often": func(w *world) {
			for p := range uint16(maxUntold) {
				w.checkOnce(scraper, p)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, trusting)
			past(w)
			w.check(envoy, 1)
			w.trigger()
			start := w.now
			w.next(Envoys{[]netip.Addr{envoy}})
			w.check(envoy, 1)
			w.run(10 * time.Second)
			if got := w.releasedAt.Sub(start); w.releasedAt.IsZero() || got > time.Second+half || len(w.m.degraded) > 0 {
				t.Errorf("released after %v, degraded %q", got, w.m.degraded)
			}
		})
	}
}
