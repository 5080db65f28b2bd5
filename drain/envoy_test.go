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
