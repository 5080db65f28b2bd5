package drain

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

// C2
func TestIdleKeepAliveDoesNotHoldDrain(t *testing.T) {
	w := newWorld(t, Config{})
	for range 20 {
		w.request(w.open(envoy), 300)
	}
	w.now = w.now.Add(time.Millisecond)
	w.trigger()
	w.run(30 * time.Second)
	w.wantReleased(5*time.Second, half)
}

// C3
func TestHealthChecksAsTrainDoNotHoldDrain(t *testing.T) {
	t.Run("on a kept connection, known at first sight", func(t *testing.T) {
		w := newWorld(t, Config{})
		check := w.open(envoy)
		for range 10 {
			w.request(check, 65)
			w.run(3 * time.Second)
		}
		at := w.since()
		w.trigger()
		for range 10 {
			w.request(check, 65)
			w.run(3 * time.Second)
		}
		w.wantReleased(at+5*time.Second, half)
	})
	t.Run("on new connections, after three", func(t *testing.T) {
		w := newWorld(t, Config{})
		w.trigger()
		for range 12 {
			w.once(envoy, 65)
			w.run(3 * time.Second)
		}
		w.wantReleased(6*time.Second, half)
	})
	t.Run("beside real traffic, though not small", func(t *testing.T) {
		w := newWorld(t, Config{Min: time.Second})
		check, pool := w.open(envoy), w.open(envoy)
		w.trigger()
		for i := range 24 {
			if i%4 == 0 {
				w.request(check, 400)
			}
			if w.since() < 4*time.Second {
				w.request(pool, 200+i*37)
			}
			w.run(half)
		}
		w.wantReleased(10*time.Second, half) // at the sixth
	})
}

// C13: a check that lameduck has failed on a taken port is no activity, however long, seldom and uneven it is: it need not
// be recognised as one of a train. Sampled or not, its connection may take a second to end.
func TestChecksFailedOnATakenPortDoNotHoldDrain(t *testing.T) {
	for _, check := range []bool{true, false} {
		w := newWorld(t, Config{})
		w.trigger()
		w.appExits()
		w.next(Took{takeover.Listener{Addr: appAddr}})
		for i := range 8 {
			for _, sampled := range []bool{true, false} {
				c := w.open(envoy)
				w.failed[c] = check
				for range 1 + 20*i { // the bodies of some
					w.send(c, 900)
				}
				w.answer(c)
				if sampled {
					w.run(1200 * time.Millisecond)
				}
				w.close(c)
			}
			w.run(time.Duration(i%3) * time.Second)
		}
		if !check {
			w.wantHeld()
			continue
		}
		w.wantReleased(5*time.Second, half)
		if s := w.m.sourceStatus(w.now, w.m.ledger.sources[envoy], time.Time{}); s.Ignored == "" || s.Owed > 0 {
			t.Errorf("%+v", s)
		}
	}
}

// Nor does it while its connection lingers.
func TestOpenConnectionOfAFailedCheckDoesNotHoldDrain(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.appExits()
	w.next(Took{takeover.Listener{Addr: appAddr}})
	w.run(4500 * time.Millisecond)
	c := w.open(envoy)
	w.failed[c] = true
	w.request(c, 900)
	w.run(2 * time.Second)
	w.wantReleased(5*time.Second, half)
}

// C3: when the application exits, a dump may show its connections gone before their events have been told.
func TestEndToldAfterASampleIsNoNewConnection(t *testing.T) {
	w := newWorld(t, Config{})
	check := w.open(envoy)
	for range 10 {
		w.request(check, 65)
		w.run(3 * time.Second)
	}
	at := w.since()
	w.trigger()
	for range 2 {
		w.request(check, 65)
		w.run(3 * time.Second)
	}
	w.wantReleased(at+5*time.Second, half)
	w.listening = false
	w.next(ListenerDied{appAddr})
	conns := w.conns
	w.conns = map[uint64]*sockdiag.Socket{}
	w.sample()
	w.conns = conns
	w.close(check)
	w.next(Terminated{})
	w.sample()
	w.wantExit(ReasonQuiet, at+6*time.Second, half)
}

// C4, with --envoy given.
func TestScraperThatIsNotEnvoyDoesNotHoldDrain(t *testing.T) {
	w := newWorld(t, Config{Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}})
	w.trigger()
	kept := w.open(scraper)
	for range 6 {
		w.request(kept, 400)
		w.once(scraper, 399)
		w.run(5 * time.Second)
	}
	w.wantReleased(5*time.Second, half)
}

// C5
func TestKubeletProbesDoNotHoldDrain(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	for range 30 {
		w.once(node, 110) // readiness
		w.once(node, 111) // liveness
		w.run(time.Second)
	}
	w.wantReleased(5*time.Second, half)
}

func TestEnvoyOnTheNodeHoldsDrain(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	for w.since() < 8*time.Second {
		w.once(node, 230+int(w.since().Milliseconds())%97)
		w.run(50 * time.Millisecond)
	}
	w.run(20 * time.Second)
	w.wantReleased(13*time.Second-half, 2*half)
}

func TestKeepAliveFromTheNodeHoldsDrain(t *testing.T) {
	w := newWorld(t, Config{})
	kept := w.open(node)
	w.request(kept, 230)
	w.trigger()
	for i := range 8 {
		w.run(time.Second)
		w.request(kept, 230+i)
	}
	w.run(20 * time.Second)
	w.wantReleased(13*time.Second, half)
}

// C26
func TestLonePollerIsNotTakenForACheck(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	kept := w.open(envoy)
	for range 5 {
		w.request(kept, 220)
		w.run(time.Second)
	}
	at := w.since()
	w.trigger()
	for range 20 {
		w.request(kept, 220)
		w.run(time.Second)
		w.wantHeld()
	}
	w.run(time.Minute)
	w.wantReleased(at+24*time.Second, time.Second)
}

// C26, the limit: a train that never ends may hold 25 s, as the sleep would.
func TestTrainThatMayBeAPollerCountsFor25s(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	w.trigger()
	for range 50 {
		w.once(envoy, 220)
		w.run(time.Second)
	}
	w.wantReleased(25*time.Second, half)
}

// C27
func TestUnlistedChecksOnNewConnectionsDoNotHoldToDeadline(t *testing.T) {
	w := newWorld(t, Config{Min: 10 * time.Second})
	w.trigger()
	for range 20 {
		w.once(scraper, 0) // a TCP check
		w.run(2 * time.Second)
	}
	w.wantReleased(10*time.Second, half)
}

// A silence of the quiet window says nothing of traffic that pauses as long: one request in 7 s, and in 4 s.
func TestSparseTrafficWidensTheQuietWindow(t *testing.T) {
	for _, every := range []time.Duration{4 * time.Second, 7 * time.Second} {
		for phase := range every / time.Second {
			w := newWorld(t, Config{Min: 10 * time.Second, GracePeriod: 60 * time.Second})
			random := rand.New(rand.NewPCG(1, 1))
			pool := w.open(envoy)
			w.request(pool, 300)
			w.now = w.now.Add(phase * time.Second)
			start := w.now
			w.trigger()
			w.run(every - phase*time.Second)
			var last time.Time
			for w.now.Sub(start) < 15*time.Second {
				last = w.now
				w.request(pool, 300+random.IntN(500))
				w.run(every)
				if w.now.Sub(start) < 15*time.Second {
					w.wantHeld()
				}
			}
			w.run(time.Minute)
			w.wantReleased(last.Add(5*time.Second).Sub(epoch), 2*every-5*time.Second+half)
		}
	}
}

func TestSparseTrafficHoldsNoLongerThanTheSleep(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 120 * time.Second})
	w.trigger()
	for w.since() < 22*time.Second {
		w.once(envoy, 300+int(w.since()/time.Second)*7)
		w.run(4 * time.Second)
	}
	w.run(time.Minute)
	w.wantReleased(25*time.Second, half)
}

// A scrape now and then is no reason to wait for the next: the window is a source's own, and so are the gaps.
func TestOneScrapeDoesNotWidenTheWindow(t *testing.T) {
	w := newWorld(t, Config{Min: time.Second})
	w.trigger()
	random := rand.New(rand.NewPCG(1, 1))
	for w.since() < time.Second {
		w.once(envoy, 300+random.IntN(500))
		w.run(20 * time.Millisecond)
	}
	w.run(3 * time.Second)
	w.once(scraper, 400)
	w.run(time.Minute)
	w.wantReleased(9*time.Second, half)
}

// C27, and the dials of peers that are draining too.
func TestConnectionsWithoutAByteDoNotHoldDrain(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	random := rand.New(rand.NewPCG(1, 1)) // no train
	for w.since() < 20*time.Second {
		w.close(w.open(envoy))
		w.run(time.Duration(200+random.IntN(1500)) * time.Millisecond)
	}
	w.wantReleased(5*time.Second, half)
}

// A server that speaks first has had a client, though that said nothing.
func TestConnectionThatWasOnlyAnsweredHoldsDrain(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.run(2 * time.Second)
	c := w.open(envoy)
	w.answer(c)
	w.close(c)
	w.run(20 * time.Second)
	w.wantReleased(7*time.Second, half)
}

// An Envoy on the node, known by a connection that carried more than a probe does before the trigger.
func TestOldConnectionFromTheNodeThatWasNoProbeHoldsDrain(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	c := w.open(node)
	for range 60 {
		w.request(c, 300)
	}
	w.later(time.Second)
	w.send(c, 300)
	w.trigger()
	w.run(8 * time.Second)
	w.wantHeld()
}

// Sources beyond the ledger's bounds are Envoys or not, as the others are.
func TestStrangersBeyondTheLedgersBoundsDoNotHoldDrain(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second, Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}})
	w.trigger()
	for i := 0; w.since() < 20*time.Second; i++ {
		for j := range 100 {
			w.once(netip.AddrFrom4([4]byte{10, 9, byte(i), byte(j)}), 3000)
		}
		w.run(period)
	}
	w.wantReleased(5*time.Second, half)
}

// An application that closes by RST hides what its checks were; their rhythm tells.
func TestChecksThatTheAppResetsAreATrain(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 120 * time.Second})
	w.trigger()
	for w.since() < 40*time.Second {
		w.void(w.open(envoy))
		w.run(2 * time.Second)
	}
	w.wantReleased(trainLimit, half)
}

// Nobody knows whose SYN it was: another pod's scan must not keep this one to its deadline.
func TestSingleRefusedSYNsHoldDrainNoLongerThanTheSleep(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	w.trigger()
	w.next(Terminated{})
	w.appExits()
	r := rand.New(rand.NewPCG(5, 5))
	for w.since() < 50*time.Second && w.exitedAt.IsZero() {
		w.refused++
		w.segs++
		w.run(time.Duration(700+r.IntN(1600)) * time.Millisecond)
	}
	w.wantExit(ReasonQuiet, trainLimit, 2*half)
}
