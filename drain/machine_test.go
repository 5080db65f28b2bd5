package drain

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHoldEndsAtLagPlusQuiet(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Second, 3 * time.Second, 8 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			w := newWorld(t, Config{})
			w.trigger()
			for w.since() < lag {
				w.once(envoy, 230)
				w.run(35 * time.Millisecond)
			}
			w.run(30 * time.Second)
			w.wantReleased(max(0, lag-half)+5*time.Second, half+half)
		})
	}
}

func TestMinHoldsWithoutTraffic(t *testing.T) {
	w := newWorld(t, Config{Min: 10 * time.Second})
	w.trigger()
	w.run(30 * time.Second)
	w.wantReleased(10*time.Second, half)
}

// C10, C25
func TestOwedAnswerHoldsDrain(t *testing.T) {
	for _, c := range []struct {
		name          string
		answer, grace time.Duration
	}{{"C25", 12 * time.Second, 30 * time.Second}, {"C10", 45 * time.Second, 90 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{GracePeriod: c.grace})
			slow := w.open(envoy)
			w.send(slow, 230)
			w.now = w.now.Add(time.Millisecond)
			w.trigger()
			w.run(c.answer - time.Millisecond)
			w.wantHeld()
			w.answer(slow)
			w.run(c.grace)
			w.wantReleased(c.answer, sendingFor+half)
		})
	}
}

// C18
func TestListedEnvoyNeverSeenHoldsForMinAndSaysSo(t *testing.T) {
	w := newWorld(t, Config{Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}, Min: 10 * time.Second})
	w.trigger()
	w.run(9900 * time.Millisecond)
	w.wantHeld()
	w.run(10 * time.Second)
	if !slices.ContainsFunc(w.notes, func(n string) bool { return strings.Contains(n, "no address of --envoy was seen") }) {
		t.Errorf("no note says that --envoy was never seen: %q", w.notes)
	}
}

// C19
func TestLostEventsAreActivityAndAskForADump(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.run(4 * time.Second)
	if !slices.Contains(w.m.Next(w.now, Lost{}), Effect(Sample{})) {
		t.Error("lost events did not ask for a dump")
	}
	w.run(20 * time.Second)
	w.wantReleased(9*time.Second, half)
}

// C31
func TestBlindHoldIsABoundedSleep(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{30 * time.Second: 25 * time.Second, 60 * time.Second: 25 * time.Second, 15 * time.Second: 10 * time.Second} {
		w := newWorld(t, Config{GracePeriod: grace, Min: time.Second})
		w.blind = errors.New("operation not permitted")
		w.trigger()
		w.run(want + half)
		w.wantReleased(want, half)
		w.appExits()
		w.next(Terminated{})
		w.run(half)
		if w.words.Reason == "" || len(w.words.Degraded) == 0 || !strings.Contains(w.words.Degraded[0], "sock_diag is refused") {
			t.Errorf("last words %+v", w.words)
		}
	}
}

func TestWithoutDestroyEventsHoldIsABoundedSleep(t *testing.T) {
	w := newWorld(t, Config{Min: time.Second})
	w.next(Degraded{Text: "no events", Blind: true})
	w.trigger()
	w.run(time.Minute)
	w.wantReleased(25*time.Second, half)
}

func TestQuietIsNeverConcludedFromAnOldSample(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.now = w.now.Add(6 * time.Second)
	w.next(Counted{InSegs: w.segs + 1})
	w.next(Tick{})
	w.wantHeld()
}

func TestLedgerIsBounded(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	for i := range 3 * maxSources {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 0x0a020000+uint32(i))
		for size := range 3 {
			w.once(netip.AddrFrom4(b), 300+i%200+size)
		}
	}
	for i := range 10 * maxClasses {
		w.once(envoy, 200+i)
	}
	if n := len(w.m.ledger.sources); n > maxSources {
		t.Errorf("%d sources", n)
	}
	for _, s := range w.m.ledger.sources {
		if len(s.classes) > maxClasses {
			t.Errorf("%d classes", len(s.classes))
		}
	}
	if w.m.lag(w.now.Add(time.Second)) < 0 || w.m.ledger.others.plain.IsZero() {
		t.Error("traffic beyond the bounds does not count")
	}
}
