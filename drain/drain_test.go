package drain

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeKernel is a namespace whose clock can be virtual: a real one knows no synctest.
type fakeKernel struct {
	mu       sync.Mutex
	sockets  []sockdiag.Socket
	segs     uint64
	refused  uint64
	cost     time.Duration
	dumpErr  error
	procErr  error
	countErr error
	dumps    int
	calls    int
	spent    time.Duration
	explode  bool
	stop     time.Duration // of the next reading of the counters
	filtered []uint16
}

func (k *fakeKernel) set(change func(*fakeKernel)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
}

// figures are the counts of what was asked: whole dumps, all calls, and the time that dumps took.
func (k *fakeKernel) figures() (dumps, calls int, spent time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dumps, k.calls, k.spent
}

func (k *fakeKernel) dump(q sockdiag.Query, fn func(*sockdiag.Socket) bool, fault func() error) error {
	k.mu.Lock()
	k.calls++
	err := fault()
	explode, sockets, cost := k.explode, k.sockets, k.cost
	if err == nil && len(q.Ports) > 0 {
		k.dumps++
		k.spent += cost
	} else {
		cost = 0
	}
	k.mu.Unlock()
	if explode {
		panic("boom")
	}
	if err != nil {
		return err
	}
	time.Sleep(cost) // not under the lock: synctest takes a wait for a mutex for a running goroutine
	for _, s := range sockets {
		if q.States&sockdiag.Of(s.State) != 0 && !fn(&s) {
			break
		}
	}
	return nil
}

func (k *fakeKernel) functions() Kernel {
	return Kernel{
		Dump: func(q sockdiag.Query, fn func(*sockdiag.Socket) bool) error {
			return k.dump(q, fn, func() error { return k.dumpErr })
		},
		ProcDump: func(q sockdiag.Query, fn func(*sockdiag.Socket) bool) error {
			return k.dump(q, fn, func() error { return k.procErr })
		},
		FilterPorts: func(ports []uint16) error {
			k.set(func(k *fakeKernel) { k.filtered = ports })
			return nil
		},
		Counters: func() (uint64, uint64, error) {
			k.mu.Lock()
			stop := k.stop
			k.stop = 0
			k.mu.Unlock()
			time.Sleep(stop)
			k.mu.Lock()
			defer k.mu.Unlock()
			k.calls++
			return k.segs, k.refused, k.countErr
		},
		Addresses: func() ([]netip.Addr, error) { return []netip.Addr{appAddr.Addr()}, nil },
		Gateways:  func() ([]netip.Addr, error) { return []netip.Addr{node}, nil },
	}
}

// fakeTaker notes what it is asked for.
type fakeTaker struct {
	mu    sync.Mutex
	armed []takeover.Listener
	kicks int
}

func (t *fakeTaker) Arm(l takeover.Listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = append(t.armed, l)
}

func (t *fakeTaker) Kick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kicks++
}

func (t *fakeTaker) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kicks
}

func (t *fakeTaker) Owns(_, _ netip.AddrPort) (ours, check bool) { return false, false }
func (t *fakeTaker) Targeted(uint16) bool                        { return true }
func (t *fakeTaker) Stats() takeover.Stats                       { return takeover.Stats{Relayed: 3} }

// running is a drain under a virtual clock.
type running struct {
	*Drain
	kernel *fakeKernel
	taker  *fakeTaker
	spoken []LastWords
	words  LastWords
	ended  chan struct{}
	start  time.Time
}

func listening() []sockdiag.Socket {
	return []sockdiag.Socket{{Local: appAddr, State: sockdiag.Listen, Cookie: 1}}
}

// inBubble runs a drain in a bubble of synctest, and ends it.
func inBubble(t *testing.T, c Config, body func(*running)) {
	synctest.Test(t, func(*testing.T) {
		r := &running{kernel: &fakeKernel{sockets: listening()}, taker: &fakeTaker{}, ended: make(chan struct{}), start: time.Now()}
		r.Drain = New(Options{Config: c, Kernel: r.kernel.functions(), Taker: r.taker,
			Speak: func(w LastWords) { r.spoken = append(r.spoken, w) }})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			defer close(r.ended)
			r.words, _ = r.Run(ctx)
		}()
		synctest.Wait()
		body(r)
		cancel()
		<-r.ended
	})
}

func (r *running) appExits() {
	r.kernel.set(func(k *fakeKernel) { k.sockets = nil })
	r.Hear(sockdiag.Event{Listener: true, Socket: sockdiag.Socket{Local: appAddr}})
	synctest.Wait()
}

func (r *running) hold() <-chan time.Duration {
	held := make(chan time.Duration, 1)
	start := time.Now()
	go func() {
		r.Hold(context.Background())
		held <- time.Since(start)
	}()
	return held
}

// C6
func TestHoldWithoutDrainReturnsAfter5s(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		if held := <-r.hold(); held != 5*time.Second {
			t.Errorf("held %v", held)
		}
		if r.Draining() || r.Status().Phase != Serving {
			t.Error("a hold started a drain")
		}
	})
}

// C21
func TestEveryHoldIsReleasedTogether(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		var holds []<-chan time.Duration
		for range 4 {
			holds = append(holds, r.hold())
		}
		synctest.Wait()
		if n := r.Status().Holds; n != 4 {
			t.Errorf("%d holds", n)
		}
		r.Trigger("drain")
		r.Trigger("drain")
		for _, h := range holds {
			if held := <-h; held != 5*time.Second {
				t.Errorf("held %v", held)
			}
		}
		late := r.hold()
		if held := <-late; held != 0 {
			t.Errorf("a hold after the release waited %v", held)
		}
		r.appExits()
		r.Terminate()
		r.Terminate()
		<-r.ended
		if len(r.spoken) != 2 || r.spoken[0].LastWords != "SIGTERM" || r.spoken[1].LastWords != "exit" || r.words.Reason != ReasonQuiet {
			t.Errorf("last words %+v", r.spoken)
		}
		if r.spoken[1].Relayed != 3 {
			t.Error("the last words do not count what was relayed")
		}
		if r.Status().Phase != Done {
			t.Errorf("status after the exit: %+v", r.Status())
		}
	})
}

func TestServingAsksTheKernelNothing(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		_, before, _ := r.kernel.figures()
		time.Sleep(24 * time.Hour)
		if _, after, _ := r.kernel.figures(); after != before {
			t.Errorf("%d calls in an idle day", after-before)
		}
		if len(r.taker.armed) > 0 {
			t.Error("armed while serving")
		}
	})
}

func TestDrainWithoutTrafficTakesNoDumps(t *testing.T) {
	inBubble(t, Config{Min: 20 * time.Second}, func(r *running) {
		r.Trigger("drain")
		time.Sleep(19 * time.Second)
		if dumps, _, _ := r.kernel.figures(); dumps != 1 {
			t.Errorf("%d dumps though no segment came", dumps)
		}
	})
}

// C30
func TestDumpsTakeTwoPercentOfACoreAtMost(t *testing.T) {
	inBubble(t, Config{GracePeriod: 10 * time.Minute}, func(r *running) {
		r.kernel.set(func(k *fakeKernel) { k.cost = 54 * time.Millisecond })
		r.Trigger("drain")
		for range 2000 {
			r.kernel.set(func(k *fakeKernel) { k.segs++ })
			time.Sleep(100 * time.Millisecond)
		}
		dumps, _, spent := r.kernel.figures()
		if spent > 200*time.Second*2/100+54*time.Millisecond {
			t.Errorf("%v of dumps in 200 s", spent)
		}
		if dumps < 30 {
			t.Errorf("%d dumps: the budget is not used", dumps)
		}
	})
}

// C23: whoever asks for the status all the time puts nothing off.
// A process that was stopped (SIGSTOP, a frozen container, a starved machine) must not take what it missed for silence.
func TestStoppedLameduckConcludesNothingFromItsAbsence(t *testing.T) {
	inBubble(t, Config{Quiet: 2 * time.Second, Min: time.Millisecond, GracePeriod: 60 * time.Second}, func(r *running) {
		r.Trigger("drain")
		held := r.hold()
		time.Sleep(time.Second)
		r.kernel.set(func(k *fakeKernel) { k.stop = 4 * time.Second })
		if took := <-held; took < 1*time.Second+4*time.Second+2*time.Second {
			t.Errorf("released after %v, of which 4 s had been seen by nobody", took)
		}
	})
}

func TestAskingForTheStatusPutsNothingOff(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		held := r.hold()
		r.Trigger("drain")
		var asking sync.WaitGroup
		defer asking.Wait()
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		asking.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(period / 3)
				r.kernel.set(func(k *fakeKernel) { k.segs++ }) // the question itself
				r.Status()
			}
		})
		if h := <-held; h > 5*time.Second+period {
			t.Errorf("held %v", h)
		}
		time.Sleep(time.Second)
		r.Terminate() // the application's last connection is still there
		synctest.Wait()
		r.kernel.set(func(k *fakeKernel) { k.sockets = nil })
		left := time.Now()
		<-r.ended
		if late := time.Since(left); late > 2*period {
			t.Errorf("the exit came %v after the application's", late)
		}
	})
}

// The sample that SIGTERM asks for comes as soon as the budget allows one, not at the next tick.
func TestSampleThatHadToWaitComesWithTheBudget(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		const cost = time.Millisecond
		r.kernel.set(func(k *fakeKernel) { k.cost = cost })
		held := r.hold()
		r.Trigger("drain")
		<-held
		r.appExits() // a sample, and the budget is used up
		r.kernel.set(func(k *fakeKernel) { k.segs++ })
		r.Took(takeover.Event{Kind: takeover.Taken, Listener: takeover.Listener{Addr: appAddr}}) // counts: the sample is old
		term := time.Now()
		r.Terminate()
		<-r.ended
		if late := time.Since(term); late > 75*cost {
			t.Errorf("the exit came %v after SIGTERM, though a sample costs %v", late, cost)
		}
	})
}

func TestListenerDeathKicksTheTakerOnlyInADrain(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		r.appExits()
		if r.taker.count() > 0 {
			t.Error("kicked while serving")
		}
		r.Trigger("drain") // C28: it died a moment ago
		synctest.Wait()
		if len(r.taker.armed) != 1 || r.taker.armed[0].Addr != appAddr {
			t.Errorf("armed %v", r.taker.armed)
		}
		r.appExits()
		if r.taker.count() == 0 {
			t.Error("not kicked in a drain")
		}
	})
}

// C31
func TestRefusedSockDiagHoldsBoundedAndExits(t *testing.T) {
	inBubble(t, Config{Min: time.Second}, func(r *running) {
		r.kernel.set(func(k *fakeKernel) { k.dumpErr = errors.New("operation not permitted") })
		held := r.hold()
		r.Trigger("drain")
		if h := <-held; h != 25*time.Second {
			t.Errorf("held %v", h)
		}
		r.kernel.set(func(k *fakeKernel) { k.sockets, k.segs = nil, 9 })
		r.Terminate()
		<-r.ended
		if r.words.Reason != ReasonBlind || len(r.words.Degraded) == 0 {
			t.Errorf("last words %+v", r.words)
		}
	})
}

func TestNothingReadableDrainsUntilTheDeadline(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		r.kernel.set(func(k *fakeKernel) {
			k.dumpErr, k.procErr, k.countErr = errors.New("a"), errors.New("b"), errors.New("c")
		})
		held := r.hold()
		r.Trigger("drain")
		r.Terminate()
		if h := <-held; h != 25*time.Second {
			t.Errorf("held %v", h)
		}
		<-r.ended
		if r.words.Reason != ReasonDeadline || time.Since(r.start) < 29*time.Second {
			t.Errorf("after %v: %+v", time.Since(r.start), r.words)
		}
	})
}

func TestUnreadableCountersOnlyCostDumps(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		r.kernel.set(func(k *fakeKernel) { k.countErr = errors.New("no such file") })
		held := r.hold()
		r.Trigger("drain")
		if h := <-held; h > 5*time.Second+period {
			t.Errorf("held %v", h)
		}
	})
}

func TestInternalErrorNeverShortensTheDrain(t *testing.T) {
	for _, when := range []string{"at the trigger", "in the drain", "at SIGTERM"} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, Config{}, func(r *running) {
				explode := func() { r.kernel.set(func(k *fakeKernel) { k.explode, k.segs = true, k.segs+1 }) }
				if when == "at the trigger" {
					explode()
				}
				held := r.hold()
				r.Trigger("drain")
				time.Sleep(3 * time.Second)
				if when == "in the drain" {
					explode()
					time.Sleep(time.Second)
				}
				if !r.Draining() {
					t.Error("health checks would pass")
				}
				if when == "at SIGTERM" {
					explode()
				}
				r.Terminate()
				r.Status()
				if h := <-held; h < 25*time.Second || h > 25*time.Second+period {
					t.Errorf("held %v", h)
				}
				<-r.ended
				if end := time.Since(r.start); end < 29*time.Second || end > 29*time.Second+period {
					t.Errorf("ended after %v", end)
				}
			})
		})
	}
}

func TestSIGTERMAloneIsTheTrigger(t *testing.T) {
	inBubble(t, Config{Min: 10 * time.Second}, func(r *running) {
		r.Terminate()
		synctest.Wait()
		if s := r.Status(); s.Trigger != "SIGTERM" || s.Phase != Draining {
			t.Errorf("status %+v", s)
		}
		r.appExits()
		<-r.ended
		if end := time.Since(r.start); end < 10*time.Second || end > 10*time.Second+period {
			t.Errorf("ended after %v", end)
		}
	})
}

func TestHealthFailsFromTheTriggerOnButNotInObserveOnly(t *testing.T) {
	for _, observe := range []bool{false, true} {
		inBubble(t, Config{ObserveOnly: observe}, func(r *running) {
			if r.Draining() {
				t.Error("fails while serving")
			}
			r.Trigger("drain")
			synctest.Wait()
			if r.Draining() == observe {
				t.Errorf("observe-only %v: draining %v", observe, r.Draining())
			}
			if observe {
				if held := <-r.hold(); held != 0 {
					t.Errorf("observe-only held %v", held)
				}
			}
		})
	}
}

func TestAppHealthIsItsListeners(t *testing.T) {
	for _, c := range []struct {
		ports []uint16
		well  bool
	}{{nil, true}, {[]uint16{8080}, true}, {[]uint16{8080, 9090}, false}} {
		inBubble(t, Config{Ports: c.ports}, func(r *running) {
			if err := r.AppHealth(context.Background()); (err == nil) != c.well {
				t.Errorf("ports %v: %v", c.ports, err)
			}
		})
	}
}

func TestHoldEndsWithItsCaller(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		r.Hold(ctx)
		if time.Since(start) != time.Second || r.Status().Holds != 0 {
			t.Errorf("held %v, %d holds left", time.Since(start), r.Status().Holds)
		}
	})
}
