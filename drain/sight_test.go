package drain

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"lameduck/netns/sockdiag"
)

// busy is a drain under traffic, 40 s after its trigger, that owes the answer to a request of before.
func busy(t *testing.T) (w *world, slow uint64) {
	w = newWorld(t, Config{GracePeriod: 120 * time.Second, Min: 10 * time.Second})
	w.trigger()
	slow = w.open(envoy)
	w.send(slow, 300)
	r := rand.New(rand.NewPCG(1, 1))
	for w.since() < 40*time.Second {
		w.once(envoy, 200+r.IntN(900))
		w.run(100 * time.Millisecond)
	}
	w.wantHeld()
	return w, slow
}

// Whatever cannot be seen any more makes the drain longer, never shorter.
func TestLosingSightForgetsNeitherTrafficNorOwedAnswers(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"no more events": func(w *world) { w.next(Degraded{Text: "events have ended", Blind: true}) },
		"one failed dump": func(w *world) {
			w.blind = errors.New("no buffer space available")
			w.segs++
			w.run(period)
			w.blind = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, slow := busy(t)
			lose(w)
			w.next(Tick{})
			w.run(4 * time.Second)
			w.wantHeld()
			at := w.since()
			w.answer(slow)
			w.run(time.Minute)
			w.wantReleased(at+half, 2*time.Second)
		})
	}
}

func TestAnswerInPiecesIsOwed(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.open(envoy)
	w.request(c, 300)
	w.now = w.now.Add(time.Millisecond)
	w.trigger()
	for w.since() < 12*time.Second {
		w.run(250 * time.Millisecond)
		w.answer(c)
		w.wantHeld()
	}
	w.run(time.Minute)
	w.wantReleased(12*time.Second, sendingFor+half)
}

func TestOwnTrafficAndLoopbackDoNotHoldDrain(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	for w.since() < 20*time.Second {
		w.once(appAddr.Addr(), 300+int(w.since().Milliseconds())%97)
		w.once(netip.MustParseAddr("127.0.0.1"), 300+int(w.since().Milliseconds())%97)
		w.run(70 * time.Millisecond)
	}
	w.wantReleased(5*time.Second, half)
}

func TestUnreadRequestIsOwed(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.open(envoy)
	w.request(c, 300)
	w.now = w.now.Add(time.Millisecond)
	w.conns[c].RQueue = 300
	w.trigger()
	w.run(15 * time.Second)
	w.wantHeld()
}

func TestUnreadEndOfAClientIsNotOwed(t *testing.T) {
	w := newWorld(t, Config{})
	c := w.open(envoy)
	w.request(c, 300)
	w.now = w.now.Add(time.Millisecond)
	w.conns[c].RQueue, w.conns[c].State = 1, sockdiag.CloseWait
	w.trigger()
	w.run(15 * time.Second)
	w.wantReleased(5*time.Second, half)
}

// One of several listeners of an address (SO_REUSEPORT) dies, and the others serve on.
func TestOneOfSeveralListenersIsNotTheApplicationsEnd(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.next(Terminated{})
	w.run(12 * time.Second)
	w.next(ListenerDied{appAddr})
	w.next(Tick{})
	w.sample()
	w.run(5 * time.Second)
	if !w.exitedAt.IsZero() || w.m.phase != Draining {
		t.Errorf("phase %s, exit at %v", w.m.phase, w.exitedAt.Sub(epoch))
	}
}

func TestListenersOfTheDayAreForgotten(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range uint16(5000) {
		a := netip.AddrPortFrom(appAddr.Addr(), 20000+i)
		w.next(Listening{[]sockdiag.Socket{w.listener(), {Local: a, State: sockdiag.Listen}}})
		w.next(ListenerDied{a})
		w.now = w.now.Add(5 * time.Second)
	}
	w.now = w.now.Add(time.Minute)
	w.trigger()
	if len(w.armed) != 1 || len(w.m.known) > 4 {
		t.Errorf("armed %d, known %d", len(w.armed), len(w.m.known))
	}
}

func TestRefusalsOfTheDayAreNotOfThisEnd(t *testing.T) {
	w := newWorld(t, Config{})
	w.next(Counted{})
	w.next(ListenerDied{appAddr}) // a restart at noon
	w.now = w.now.Add(3 * time.Hour)
	w.next(Counted{Refused: 500}) // port scans
	w.next(ListenerDied{appAddr})
	w.now = w.now.Add(300 * time.Millisecond)
	w.refused = 502
	w.listening = false
	w.trigger()
	if w.m.refused != 2 {
		t.Errorf("%d refused, want 2", w.m.refused)
	}
}

func TestStuckAppIsSeenWithoutAnySegment(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.queue = 3
	w.segs++
	w.run(2 * time.Second)
	if state := w.m.Status(w.now, 0, Relay{}).Ports[0].State; state != "stuck" {
		t.Errorf("port is %q", state)
	}
}

func TestEndOfANodesConnectionTakesNoOwedAnswerBack(t *testing.T) {
	w := newWorld(t, Config{})
	n, e := w.open(node), w.open(envoy)
	w.send(n, 300)
	w.send(e, 300)
	w.trigger()
	w.send(n, 300)
	w.close(n)
	if w.m.owed != 1 {
		t.Errorf("%d owed, want 1", w.m.owed)
	}
}

// What came since the last tick is known before SIGTERM is judged.
func TestExitAtSIGTERMIsNotJudgedByAnOldSample(t *testing.T) {
	inBubble(t, Config{}, func(r *running) {
		held := r.hold()
		r.Trigger("drain")
		<-held
		r.appExits()
		time.Sleep(time.Second + period/2)
		r.kernel.set(func(k *fakeKernel) {
			k.segs += 3
			k.sockets = []sockdiag.Socket{{Local: appAddr, Remote: netip.AddrPortFrom(envoy, 4000), Cookie: 77, Inode: 7,
				State: sockdiag.Established, HasInfo: true,
				Info: sockdiag.Info{DataSegsIn: 1, BytesReceived: 220, LastDataSent: time.Millisecond}}}
		})
		r.Terminate()
		synctest.Wait()
		select {
		case <-r.ended:
			t.Errorf("left (%s) with an owed request open", r.words.Reason)
		default:
		}
	})
}
