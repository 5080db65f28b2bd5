package drain

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

// Equal requests at random moments are no train, whatever else their source shows: one in a hundred runs may be released
// while they come, by a row of chance.
func TestEqualRequestsAtRandomMomentsAreNoTrain(t *testing.T) {
	for _, mode := range []string{"kept", "pool", "new"} {
		for _, beside := range []string{"nothing", "health port", "other traffic"} {
			for _, gaps := range [][2]int{{100, 1500}, {600, 4000}} {
				t.Run(fmt.Sprintf("%s beside %s, gaps of %v ms", mode, beside, gaps), func(t *testing.T) {
					wantHeldAmongRequests(t, 1, func(seed uint64) bool { return randomRequests(t, seed, mode, beside, gaps) })
				})
			}
		}
	}
}

// wantHeldAmongRequests makes 100 runs, each of which tells whether the hold was released while requests came, and fails the
// test if more than most were.
func wantHeldAmongRequests(t *testing.T, most int, released func(seed uint64) bool) {
	t.Helper()
	early := 0
	const runs = 100
	for seed := range uint64(runs) {
		early += boolInt(released(seed))
	}
	if early > most {
		t.Errorf("released among requests in %d of %d runs", early, runs)
	}
}

// releasedBefore tells whether the hold was released before a moment, counted from the beginning.
func (w *world) releasedBefore(d time.Duration) bool {
	return !w.releasedAt.IsZero() && w.releasedAt.Sub(epoch) < d
}

// randomRequests sends for 20 s and tells whether the hold was released meanwhile.
func randomRequests(t *testing.T, seed uint64, mode, beside string, gaps [2]int) bool {
	r := rand.New(rand.NewPCG(seed, 7))
	pause := func() time.Duration { return time.Duration(gaps[0]+r.IntN(gaps[1]-gaps[0])) * time.Millisecond }
	w := newWorld(t, Config{GracePeriod: 60 * time.Second, Min: 10 * time.Second})
	var pool []uint64
	for range 4 {
		pool = append(pool, w.open(envoy))
	}
	for range 20 {
		w.request(pool[r.IntN(4)], 220)
		w.now = w.now.Add(pause())
	}
	at := w.now
	if beside == "health port" {
		w.next(Checked{Source: envoy})
	}
	w.trigger()
	if beside == "other traffic" {
		w.once(envoy, 3000)
	}
	for w.now.Sub(at) < 20*time.Second {
		switch mode {
		case "kept":
			w.request(pool[0], 220)
		case "pool":
			w.request(pool[r.IntN(4)], 220)
		default:
			w.once(envoy, 220)
		}
		w.run(pause())
	}
	return !w.releasedAt.IsZero() && w.releasedAt.Sub(at) < 20*time.Second
}

// C3: checks that nothing but their rhythm tells from requests, and whose rhythm jitter spoils, do not outlast the sleep.
func TestChecksWithMuchJitterHoldDrainNoLongerThanTheSleep(t *testing.T) {
	for _, kept := range []bool{true, false} {
		for _, beside := range []bool{true, false} {
			t.Run(fmt.Sprintf("kept %v, beside traffic %v", kept, beside), func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 3))
				w := newWorld(t, Config{GracePeriod: 120 * time.Second})
				checker := w.open(envoy)
				w.request(checker, 202)
				w.trigger()
				if beside {
					w.once(envoy, 3000)
				}
				for w.since() < 60*time.Second && w.releasedAt.IsZero() {
					if kept {
						w.request(checker, 70)
					} else {
						w.once(envoy, 177+[]int{0, 9, 26}[r.IntN(3)])
					}
					w.run(time.Second + time.Duration(r.IntN(600))*time.Millisecond)
				}
				w.wantReleased(trainLimit, 2*time.Second)
			})
		}
	}
}

// The frames of one check can fall into two samples.
func TestCheckThatFallsIntoTwoSamplesStaysInItsTrain(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 120 * time.Second})
	checker := w.open(envoy)
	w.request(checker, 202)
	w.trigger()
	w.once(envoy, 3000)
	for i := 0; w.since() < 20*time.Second && w.releasedAt.IsZero(); i++ {
		w.send(checker, 53)
		w.answer(checker)
		if i%2 == 0 {
			w.sample()
		}
		w.now = w.now.Add(3 * time.Millisecond)
		w.send(checker, 17)
		w.run(997 * time.Millisecond)
	}
	w.wantReleased(5*time.Second, 1500*time.Millisecond)
}

// Equal requests at random moments hold the drain also when the sleep would be over.
func TestEqualRequestsAtRandomMomentsOutlastTheSleep(t *testing.T) {
	wantHeldAmongRequests(t, 5, func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 5))
		w := newWorld(t, Config{GracePeriod: 120 * time.Second})
		w.trigger()
		for w.since() < 45*time.Second {
			w.once(envoy, 220)
			w.run(time.Duration(r.ExpFloat64() * float64(500*time.Millisecond)))
		}
		return w.releasedBefore(45 * time.Second)
	})
}

// C27: the size of a check on a connection of its own varies by a frame that its client sends or does not (measured: 106 to
// 118 bytes of HTTP/2, 177 to 203 of gRPC).
func TestChecksOnNewHTTP2ConnectionsAreAlike(t *testing.T) {
	for name, sizes := range map[string][]int{"HTTP/2": {107, 107, 116, 107, 106, 107}, "gRPC": {177, 186, 177, 203, 186, 177}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{GracePeriod: 60 * time.Second})
			w.trigger()
			w.once(envoy, 3000) // real traffic beside them
			for i := 0; w.since() < 30*time.Second; i++ {
				w.once(envoy, sizes[i%len(sizes)])
				w.run(time.Second)
			}
			w.wantReleased(5*time.Second, 1500*time.Millisecond)
		})
	}
}

// Short requests close together and at random are no braid: among many spacings some are alike by chance. (At a slow pace
// three short messages in step are taken for checks, as Envoy forwards none so short.)
func TestShortRequestsAtRandomMomentsAreNoBraid(t *testing.T) {
	wantHeldAmongRequests(t, 2, func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t, Config{GracePeriod: 60 * time.Second})
		w.trigger()
		for w.since() < 12*time.Second {
			w.once(envoy, 80)
			w.run(time.Duration(50+r.IntN(450)) * time.Millisecond)
		}
		return w.releasedBefore(12 * time.Second)
	})
}

// C26, where a poll is short without being a check: in two segments, and over HTTP/2.
func TestShortPollsAreNotTakenForChecks(t *testing.T) {
	for name, poll := range map[string][]int{"head and body apart": {100, 30}, "HTTP/2": {46}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{GracePeriod: 60 * time.Second, Min: 10 * time.Second})
			kept := w.open(envoy)
			w.request(kept, 228) // the preface, or a longer request
			at := time.Time{}
			for i := range 29 {
				if i == 5 {
					at = w.now
					w.trigger()
				}
				for _, bytes := range poll {
					w.send(kept, bytes)
				}
				w.answer(kept)
				w.run(time.Second)
				w.wantHeld()
			}
			w.run(time.Minute)
			w.wantReleased(at.Add(25*time.Second).Sub(epoch), time.Second)
		})
	}
}

// C3, C27: an Envoy has a checker for each of its clusters.
func TestBraidedCheckersDoNotHoldDrain(t *testing.T) {
	for _, kept := range []bool{true, false} {
		w := newWorld(t, Config{GracePeriod: 60 * time.Second, Min: 10 * time.Second})
		w.trigger()
		a, b := w.open(envoy), w.open(envoy)
		check := func(c uint64) {
			if kept {
				w.request(c, 65)
			} else {
				w.once(envoy, 65)
			}
		}
		for w.since() < 30*time.Second {
			check(a)
			w.run(time.Second)
			check(b)
			w.run(2 * time.Second)
		}
		w.wantReleased(10*time.Second, 3*time.Second)
	}
}

func TestChecksAfterManySizesDoNotHoldDrain(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	w.trigger()
	for i := 0; w.since() < 2*time.Second; i++ {
		w.once(envoy, 300+i%(maxClasses+30))
		w.run(20 * time.Millisecond)
	}
	for w.since() < 30*time.Second {
		w.once(envoy, 65)
		w.run(3 * time.Second)
	}
	w.wantReleased(7*time.Second, 2*time.Second)
}

// C5: a gRPC probe of the kubelet is 259 bytes in 4 to 8 segments, each on a connection of its own (measured).
func TestKubeletGRPCProbesDoNotHoldDrain(t *testing.T) {
	for _, every := range []time.Duration{time.Second, 3 * time.Second} {
		w := newWorld(t, Config{})
		w.trigger()
		for i := 0; w.since() < 20*time.Second; i++ {
			c := w.open(node)
			segments := 4 + i*3%5
			for j := range segments {
				w.send(c, 259/segments+boolInt(j == 0)*(259%segments))
			}
			w.answer(c)
			w.close(c)
			w.run(every)
		}
		w.wantReleased(5*time.Second, half)
	}
}

// What is beyond the ledger's bounds is not told apart, and counts.
func TestTrafficBeyondTheLedgersBoundsHoldsDrain(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	w.trigger()
	for i := range uint32(maxSources) {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 0x0a020000+i)
		w.next(Checked{Source: netip.AddrFrom4(b)})
	}
	for w.since() < 20*time.Second {
		w.once(envoy, 300)
		w.run(130 * time.Millisecond)
	}
	w.run(time.Minute)
	w.wantReleased(24*time.Second, 2*time.Second)
}

// The kernel tells of a connection that nobody had accepted without its remote port, and with figures that say nothing.
func TestUnacceptedConnectionsEndTakesNothingBack(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	queued := w.open(envoy)
	w.run(2 * time.Second)
	w.send(queued, 300)
	w.run(period)
	s := *w.conns[queued]
	s.Remote = netip.AddrPortFrom(envoy, 0)
	s.HasInfo, s.Info = true, sockdiag.Info{LastDataRecv: 80 * time.Minute}
	delete(w.conns, queued)
	w.next(Ended{Socket: s})
	w.sample()
	w.next(Terminated{})
	w.appExits()
	w.run(time.Minute)
	w.wantExit(ReasonQuiet, 7*time.Second, half)
}

// Not activity: the connections' closing. The kernel keeps a remainder without figures where the client does not close.
func TestRemainderOfAClosedConnectionIsNoActivity(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.open(envoy)
	w.request(c, 300)
	w.run(time.Second)
	at := w.now
	w.trigger()
	w.run(4 * time.Second)
	s := w.figures(c, *w.conns[c])
	delete(w.conns, c)
	w.next(Ended{Socket: s})
	s.State, s.HasInfo, s.Info = sockdiag.FinWait2, false, sockdiag.Info{}
	w.next(Sampled{Sockets: []Seen{{Socket: w.listener()}, {Socket: s}}})
	w.run(time.Minute)
	w.wantReleased(at.Add(5*time.Second).Sub(epoch), half)
}

// A pod that covers resets the probes of its peers, and the kernel tells of those without port and figures.
func TestProbesThatACoveringPodResetsDoNotHoldDrain(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.next(Terminated{})
	w.appExits()
	w.next(Took{takeover.Listener{Addr: appAddr}})
	r := rand.New(rand.NewPCG(1, 1))
	for w.exitedAt.IsZero() && w.since() < 20*time.Second {
		c := w.open(scraper)
		w.conns[c].Inode = 0 // not the application's
		w.run(time.Duration(100+r.IntN(900)) * time.Millisecond)
		s := w.void(c)
		s.Cookie += 1 << 20 // and one that no dump has seen
		w.next(Ended{Socket: s})
	}
	w.wantExit(ReasonQuiet, 5*time.Second, half)
}

// An application that closes by RST hides what its connections did: each of them counts.
func TestConnectionsThatTheAppResetsHoldDrain(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	for w.since() < 3*time.Second {
		w.void(w.open(envoy))
		w.run(100 * time.Millisecond)
	}
	w.run(time.Minute)
	w.wantReleased(7500*time.Millisecond, 2*half)
}

// Peers that end together ask each other as their applications go: what then waits in an accept queue is reset with it, and
// the kernel tells of that before it tells of the listener's death.
func TestAcceptQueueThatDiesWithItsListenerDoesNotHoldDrain(t *testing.T) {
	for _, c := range []struct {
		name   string
		sooner Event // what is heard before the next sample
	}{
		{"death told at once", ListenerDied{appAddr}},
		{"death told late", nil},
		{"port taken already", Took{takeover.Listener{Addr: appAddr}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{})
			w.trigger()
			w.next(Terminated{})
			w.run(4 * time.Second)
			w.void(w.open(scraper))
			w.listening = false
			if c.sooner != nil {
				w.next(c.sooner)
			}
			w.run(time.Minute)
			w.wantExit(ReasonQuiet, 5*time.Second, half)
		})
	}
}
