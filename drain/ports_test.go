package drain

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

// An application may open its port only after the trigger: it was still starting, or it is started anew.
func TestPortOpenedAfterTheTriggerIsWatchedAndArmed(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	w.listening = false
	w.trigger()
	w.run(time.Second)
	w.listening = true
	for w.since() < 12*time.Second {
		w.once(envoy, 3000)
		w.run(period)
	}
	w.wantHeld()
	if len(w.armed) != 1 || w.armed[0].Addr != appAddr {
		t.Errorf("armed: %v", w.armed)
	}
	w.run(time.Minute)
	w.wantReleased(16500*time.Millisecond, 2*half)
}

func TestMoreListenersThanCanBeWatchedMakeTheHoldASleep(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	var many []sockdiag.Socket
	for i := range uint16(maxPorts + 10) {
		many = append(many, sockdiag.Socket{Local: netip.AddrPortFrom(appAddr.Addr(), 1000+i), State: sockdiag.Listen})
	}
	w.next(Listening{many})
	w.next(Triggered{By: "drain"})
	var seen []Seen
	for _, s := range many {
		seen = append(seen, Seen{Socket: s})
	}
	w.next(Sampled{Sockets: seen})
	w.run(time.Minute)
	w.wantReleased(blindHold, half)
	if !slices.ContainsFunc(w.notes, func(n string) bool { return strings.Contains(n, "more than 1024 listeners") }) {
		t.Errorf("not said: %v", w.notes)
	}
}

// nginx listens on 0.0.0.0 and on [::] apart. Where nobody had listed them before they died, V6ONLY is told by nothing
// else: a [::] that took IPv4 as well could not be listened on beside 0.0.0.0.
func TestIPv6ListenerThatDiedBesideAnIPv4OneTookIPv6Only(t *testing.T) {
	four, six := netip.MustParseAddrPort("0.0.0.0:80"), netip.MustParseAddrPort("[::]:80")
	for name, order := range map[string][]netip.AddrPort{"before the trigger": {four, six}, "told late": {}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			for _, a := range order {
				w.next(ListenerDied{a})
			}
			w.trigger()
			if len(order) == 0 {
				w.next(ListenerDied{four})
				w.next(ListenerDied{six})
			}
			want := takeover.Listener{Addr: six, V6Only: true}
			if !slices.Contains(w.armed, want) {
				t.Errorf("armed: %+v", w.armed)
			}
		})
	}
}

// A dual-stack listener alone is taken as it was.
func TestIPv6ListenerThatDiedAloneTookBoth(t *testing.T) {
	w := newWorld(t, Config{})
	six := netip.MustParseAddrPort("[::]:80")
	w.next(ListenerDied{six})
	w.trigger()
	if !slices.Contains(w.armed, takeover.Listener{Addr: six}) {
		t.Errorf("armed: %+v", w.armed)
	}
}

// C28: a connection that nobody has accepted can keep a listener's death from being told for a second. What was refused
// since the last look is counted, whenever it is told.
func TestRefusalsBeforeADeathThatIsToldLateAreCounted(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		r.kernel.set(func(k *fakeKernel) { k.refused = 7 }) // of whatever, before
		if err := r.AppHealth(context.Background()); err != nil {
			t.Error(err)
		}
		r.kernel.set(func(k *fakeKernel) { k.sockets, k.refused = nil, 12 })
		r.Trigger("drain")
		synctest.Wait()
		if got := r.Status().Refused; got != 5 {
			t.Errorf("%d refused, not 5", got)
		}
		r.Hear(sockdiag.Event{Listener: true, Socket: sockdiag.Socket{Local: appAddr}})
		synctest.Wait()
		if got := r.Status().Refused; got != 5 {
			t.Errorf("%d refused after the event, not 5", got)
		}
	})
}
