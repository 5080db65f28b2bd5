package drain

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lameduck/netns/takeover"
)

// otherEnvoy is a listed source beside envoy.
var otherEnvoy = netip.MustParseAddr("10.0.9.2")

// check is a health check on the health port, from a port of the source that names its connection.
func (w *world) check(from netip.Addr, port uint16) {
	w.next(Checked{Source: from, Port: port, Failed: w.m.phase != Serving})
}

func (w *world) checkerLeaves(from netip.Addr, port uint16) {
	w.next(CheckerLeft{netip.AddrPortFrom(from, port)})
}

// checkOnce is a check on a connection of its own.
func (w *world) checkOnce(from netip.Addr, port uint16) {
	w.check(from, port)
	w.checkerLeaves(from, port)
}

// The drain is quiet a second after every known checker of every listed source has been failed. C14
func TestTrustedChecksAreQuietOnceEveryCheckerHasBeenFailed(t *testing.T) {
	const byQuiet = 10 * time.Second // --min, where being told does not do
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, test := range []struct {
		name     string
		two      bool           // both Envoys are listed
		before   func(w *world) // up to the trigger
		after    func(w *world) // from the trigger on
		released time.Duration
	}{
		{"one checker", false,
			func(w *world) { w.check(envoy, 1) },
			func(w *world) { w.run(ms(700)); w.check(envoy, 1) },
			ms(1700)},
		{"none had checked before", false,
			func(*world) {},
			func(w *world) { w.run(ms(700)); w.check(envoy, 1) },
			ms(1700)},
		{"two checkers", false,
			func(w *world) { w.check(envoy, 1); w.check(envoy, 2) },
			func(w *world) { w.run(ms(200)); w.check(envoy, 1); w.run(ms(700)); w.check(envoy, 2) },
			ms(1900)},
		{"one of two checkers has not asked again", false,
			func(w *world) { w.check(envoy, 1); w.check(envoy, 2) },
			func(w *world) { w.run(ms(200)); w.check(envoy, 1) },
			byQuiet},
		{"a checker that comes later", false,
			func(w *world) { w.check(envoy, 1) },
			func(w *world) {
				w.run(ms(200))
				w.check(envoy, 1)
				w.run(ms(900))
				w.check(envoy, 2)
			},
			ms(1200)},
		{"checks go on", false,
			func(w *world) { w.check(envoy, 1) },
			func(w *world) {
				for range 8 {
					w.run(ms(500))
					w.check(envoy, 1)
				}
			},
			ms(1500)},
		{"a checker has gone, its last check was 2 s before the trigger", false,
			func(w *world) { w.check(envoy, 1); w.checkOnce(envoy, 2); w.run(2 * time.Second) },
			func(w *world) { w.run(ms(200)); w.check(envoy, 1) },
			ms(4000)},
		{"a checker leaves without an answer", false,
			func(w *world) { w.check(envoy, 1); w.check(envoy, 2) },
			func(w *world) { w.run(ms(200)); w.check(envoy, 1); w.checkerLeaves(envoy, 2) },
			ms(6000)},
		{"a connection for each check", false,
			func(w *world) {
				for p := range uint16(9) {
					w.checkOnce(envoy, p)
					w.run(ms(500))
				}
			},
			func(w *world) {
				for p := range uint16(20) {
					w.run(ms(500))
					w.checkOnce(envoy, 100+p)
				}
			},
			ms(5500)},
		{"one of two Envoys", true,
			func(w *world) { w.check(envoy, 1); w.check(otherEnvoy, 1) },
			func(w *world) { w.run(ms(200)); w.check(envoy, 1) },
			byQuiet},
		{"both Envoys", true,
			func(w *world) { w.check(envoy, 1); w.check(otherEnvoy, 1) },
			func(w *world) { w.run(ms(200)); w.check(envoy, 1); w.run(ms(300)); w.check(otherEnvoy, 1) },
			ms(1500)},
		{"an Envoy that never checked", true,
			func(w *world) { w.check(envoy, 1) },
			func(w *world) { w.run(ms(200)); w.check(envoy, 1) },
			byQuiet},
		{"who is not listed need not be told", false,
			func(w *world) { w.check(envoy, 1); w.check(scraper, 1) },
			func(w *world) { w.run(ms(200)); w.check(envoy, 1) },
			ms(1200)},
		{"failed before the trigger, for the application was unwell", false,
			func(w *world) { w.next(Checked{Source: envoy, Port: 1, Failed: true}) },
			func(w *world) { w.run(ms(900)); w.check(envoy, 1) },
			ms(1900)},
		{"failed before the trigger only", false,
			func(w *world) { w.next(Checked{Source: envoy, Port: 1, Failed: true}) },
			func(*world) {},
			byQuiet},
		{"requests after being told", false,
			func(w *world) { w.check(envoy, 1) },
			func(w *world) {
				w.run(ms(200))
				w.check(envoy, 1)
				w.run(ms(800))
				w.once(envoy, 300)
			},
			ms(2000)},
		{"on a taken port: others who asked the application come within an interval", false,
			func(*world) {},
			func(w *world) {
				w.run(ms(500))
				w.next(Checked{Source: envoy, Port: 1, Failed: true, Taken: true})
			},
			ms(6500)},
		{"on a taken port and on the health port", false,
			func(w *world) { w.check(envoy, 1) },
			func(w *world) {
				w.run(ms(200))
				w.check(envoy, 1)
				w.next(Checked{Source: envoy, Port: 9, Failed: true, Taken: true})
			},
			ms(1200)},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Config{Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}, Min: byQuiet, TrustChecks: true}
			if test.two {
				c.Envoy = append(c.Envoy, netip.PrefixFrom(otherEnvoy, 32))
			}
			w := newWorld(t, c)
			test.before(w)
			start := w.now
			w.trigger()
			test.after(w)
			w.run(20 * time.Second)
			if got := w.releasedAt.Sub(start); w.releasedAt.IsZero() || got < test.released || got > test.released+half {
				t.Errorf("released after %v, want %v", got, test.released)
			}
		})
	}
}

func TestToldSourcesAreNotTrustedUnasked(t *testing.T) {
	w := newWorld(t, Config{Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}, Min: 10 * time.Second})
	w.check(envoy, 1)
	w.trigger()
	w.run(half)
	w.check(envoy, 1)
	w.run(20 * time.Second)
	w.wantReleased(10*time.Second, half)
}

// An owed answer holds, whoever has been told: the request was there before.
func TestToldSourceIsStillOwedItsAnswer(t *testing.T) {
	w := newWorld(t, Config{Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}, Min: 10 * time.Second, TrustChecks: true})
	w.check(envoy, 1)
	c := w.open(envoy)
	w.send(c, 300)
	w.trigger()
	w.run(half)
	w.check(envoy, 1)
	w.run(4 * time.Second)
	w.wantHeld()
	w.answer(c)
	w.run(5 * time.Second)
	w.wantReleased(5500*time.Millisecond, half)
}

func TestStatusTellsOfEachSourcesChecks(t *testing.T) {
	w := newWorld(t, Config{Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}, Min: 10 * time.Second, TrustChecks: true})
	want := func(lastCheck float64, answer string, told bool, toldAgo float64, untold int) {
		t.Helper()
		s := w.m.Status(w.now, 0, Relay{}).Sources[0]
		if s.LastCheckSeconds != lastCheck || s.LastAnswer != answer || s.Told != told || s.ToldSeconds != toldAgo || s.Untold != untold {
			t.Errorf("got %+v", s)
		}
	}
	w.check(envoy, 1)
	w.check(envoy, 2)
	w.now = w.now.Add(time.Second)
	want(1, AnswerWell, false, 0, 2)
	w.trigger()
	w.check(envoy, 2)
	want(0, AnswerFailed, false, 0, 1)
	if text := w.m.Status(w.now, 0, Relay{}).WaitsFor; !strings.Contains(text, "once told: "+envoy.String()) {
		t.Errorf("waits for %q", text)
	}
	w.run(half)
	w.check(envoy, 1)
	w.run(half)
	want(0.5, AnswerFailed, true, 0.5, 0)
	if text := w.m.Status(w.now, 0, Relay{}).WaitsFor; strings.Contains(text, "told") {
		t.Errorf("waits for %q", text)
	}
}

// What is remembered is bounded; a source of which a checker was missed is never told.
func TestCheckersAreBounded(t *testing.T) {
	w := newWorld(t, Config{Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}, Min: 10 * time.Second, TrustChecks: true})
	for p := range uint16(2 * maxUntold) {
		w.check(scraper, p)
	}
	w.check(envoy, 1) // a listed source has bounds of its own
	if n := w.m.ledger.untold(); n != maxUntold+1 {
		t.Errorf("%d checkers are remembered", n)
	}
	for p := range uint16(maxUntold + 1) {
		w.check(envoy, p)
	}
	w.trigger()
	for p := range uint16(maxUntold + 1) {
		w.check(envoy, p)
	}
	w.run(8 * time.Second)
	w.wantHeld()
}

// Connections of their own are forgotten in time: a year of checks must not grow us.
func TestCheckersThatLeaveAreForgotten(t *testing.T) {
	w := newWorld(t, Config{})
	for p := range uint16(1000) {
		w.checkOnce(envoy, p)
		w.now = w.now.Add(time.Second)
	}
	if n := w.m.ledger.untold(); n > 10 {
		t.Errorf("%d checkers are remembered", n)
	}
}

// Nobody can crowd a checker out of what is remembered, whatever asks while the owner is busy.
func TestCheckThatComesWhileTheOwnerIsBusyIsKnown(t *testing.T) {
	inBubble(t, Config{Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}, Min: 10 * time.Second, TrustChecks: true}, func(r *running) {
		r.kernel.set(func(k *fakeKernel) { k.stop = time.Second })
		go func() { _ = r.AppHealth(context.Background()) }()
		synctest.Wait()
		go func() {
			for port := range uint16(1000) {
				r.Checked(netip.AddrPortFrom(scraper, port), false)
			}
			r.Checked(netip.AddrPortFrom(envoy, 1), false)
		}()
		time.Sleep(2 * time.Second)
		hold := r.hold()
		r.Trigger("drain")
		r.Checked(netip.AddrPortFrom(envoy, 2), true)
		if held := <-hold; held < 10*time.Second {
			t.Errorf("held %v", held)
		}
	})
}

// A check of any kind that was failed on a taken port stands in its source's line.
func TestCheckFailedOnATakenPortReachesTheLedger(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		r.Trigger("drain")
		r.Took(takeover.Event{Kind: takeover.CheckFailed, Remote: netip.AddrPortFrom(envoy, 40000)})
		synctest.Wait()
		for _, s := range r.Status().Sources {
			if s.Address == envoy && s.LastAnswer == AnswerFailed {
				return
			}
		}
		t.Errorf("%+v", r.Status().Sources)
	})
}
