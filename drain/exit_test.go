package drain

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"lameduck/netns/takeover"
)

func TestNeverExitsBeforeSIGTERM(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.run(10 * time.Minute)
	if !w.exitedAt.IsZero() {
		t.Fatal("exited without SIGTERM")
	}
	w.appExits()
	w.run(10 * time.Minute)
	if !w.exitedAt.IsZero() {
		t.Fatal("exited without SIGTERM, though the application is gone")
	}
}

func TestExitsAtOnceAfterQuietHold(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.run(10 * time.Second)
	w.wantReleased(5*time.Second, half)
	w.appExits()
	w.next(Terminated{})
	w.run(half)
	w.wantExit(ReasonQuiet, 10*time.Second, half)
}

// C8
func TestIgnoringAppEndsAtDeadline(t *testing.T) {
	w := newWorld(t, Config{})
	w.open(envoy)
	w.trigger()
	w.run(26 * time.Second)
	w.next(Terminated{})
	w.run(time.Minute)
	w.wantExit(ReasonDeadline, 29*time.Second, 10*time.Millisecond)
	if !strings.Contains(w.words.Why, "did not end") {
		t.Errorf("why: %q", w.words.Why)
	}
}

// C8, native: the kubelet kills the application at the end of the grace period, and lameduck's SIGTERM follows. That it is
// quiet by then is not why it leaves.
func TestExitAfterAKilledAppIsTheDeadlines(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.run(30 * time.Second)
	w.wantReleased(5*time.Second, half)
	w.appExits()
	w.next(Terminated{})
	w.run(half)
	w.wantExit(ReasonDeadline, 30*time.Second, 10*time.Millisecond)
	if !strings.Contains(w.words.Why, "the application took") {
		t.Errorf("why: %q", w.words.Why)
	}
}

// C9
func TestEndlessTrafficEndsAtDeadlineAndNamesSources(t *testing.T) {
	w := newWorld(t, Config{Min: 10 * time.Second})
	w.trigger()
	w.next(Terminated{})
	random := rand.New(rand.NewPCG(1, 1)) // evenly spaced sizes would be trains
	for w.exitedAt.IsZero() && w.since() < time.Minute {
		w.once(envoy, 200+random.IntN(900))
		w.run(130 * time.Millisecond)
	}
	w.wantReleased(25*time.Second, half)
	w.wantExit(ReasonDeadline, 29*time.Second, half)
	if !slices.Contains(w.words.Sending, envoy.String()) {
		t.Errorf("sending %v, want %v", w.words.Sending, envoy)
	}
	if w.words.GraceNeeded <= 30 || !strings.Contains(w.words.Why, "grace period") {
		t.Errorf("grace needed %d, why %q", w.words.GraceNeeded, w.words.Why)
	}
}

func TestOwedAnswerDoesNotHoldPastHoldDeadline(t *testing.T) {
	w := newWorld(t, Config{})
	w.send(w.open(envoy), 230)
	w.trigger()
	w.run(time.Minute)
	w.wantReleased(25*time.Second, half)
}

// C21
func TestSecondTriggerAndSecondSIGTERMChangeNothing(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.run(3 * time.Second)
	w.trigger()
	w.next(Terminated{})
	w.run(time.Second)
	if effects := w.m.Next(w.now, Terminated{}); len(effects) > 0 {
		t.Errorf("second SIGTERM: %v", effects)
	}
	w.run(10 * time.Second)
	w.wantReleased(5*time.Second, half)
}

// C22
func TestPlainSidecarLeavesAfterTheApp(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.next(Terminated{})
	w.run(20 * time.Second)
	if !w.exitedAt.IsZero() {
		t.Fatal("left while the application listens")
	}
	w.appExits()
	w.run(time.Second)
	w.wantExit(ReasonQuiet, 20*time.Second, half)
}

// C28
func TestPortThatDiedBeforeTheTriggerIsArmedAndRefusalsAreCounted(t *testing.T) {
	for _, c := range []struct {
		ago   time.Duration
		armed int
	}{{400 * time.Millisecond, 1}, {9 * time.Second, 1}, {11 * time.Second, 0}} {
		w := newWorld(t, Config{})
		w.listening = false
		w.refused = 7
		w.next(Counted{Refused: w.refused})
		w.next(ListenerDied{appAddr})
		w.now = w.now.Add(c.ago)
		w.refused += 5
		w.trigger()
		if len(w.armed) != c.armed {
			t.Errorf("died %v before the trigger: armed %v", c.ago, w.armed)
		}
		if c.armed == 1 && w.m.refused != 5 {
			t.Errorf("%d refused, want 5", w.m.refused)
		}
		if c.armed == 1 && w.m.phase != Covering {
			t.Errorf("phase %s", w.m.phase)
		}
	}
}

// C29
func TestAcceptQueueThatStaysFullIsReportedAsAppStuck(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.next(Terminated{})
	w.queue = 3
	for range 10 {
		w.segs++
		w.run(period)
	}
	if got := w.m.Status(w.now, 0, Relay{}).Ports[0].State; got != "stuck" {
		t.Errorf("port is %q", got)
	}
	if !slices.ContainsFunc(w.notes, func(n string) bool { return strings.HasPrefix(n, "app stuck") }) {
		t.Errorf("not reported: %q", w.notes)
	}
	w.run(time.Minute)
	w.wantExit(ReasonDeadline, 29*time.Second, half)
}

func TestUnreadableSocketsDrainUntilDeadline(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.next(SampleFailed{errors.New("gone")})
	w.next(Terminated{})
	for range 40 {
		w.segs++
		w.now = w.now.Add(time.Second)
		w.next(Counted{InSegs: w.segs})
		w.next(SampleFailed{errors.New("gone")})
		w.next(Tick{})
	}
	w.wantReleased(25*time.Second, half)
	w.wantExit(ReasonDeadline, 29*time.Second, half)
}

func TestNothingEverListenedExitsASecondAfterSIGTERM(t *testing.T) {
	w := newWorld(t, Config{Min: 10 * time.Second})
	w.m = NewMachine(Config{Min: 10 * time.Second})
	w.listening = false
	w.trigger()
	w.next(Terminated{})
	w.run(10 * time.Second)
	w.wantExit(ReasonNothing, lateDeath, 10*time.Millisecond)
}

// C22: a plain sidecar's SIGTERM comes with the application's, whose listener may be closed before anybody has seen it.
func TestDeathToldAfterSIGTERMIsNoEmptyPod(t *testing.T) {
	for _, late := range []time.Duration{0, 940 * time.Millisecond} {
		w := newWorld(t, Config{Min: 10 * time.Second})
		w.m = NewMachine(Config{Min: 10 * time.Second})
		w.listening = false
		w.trigger()
		w.next(Terminated{})
		w.run(late)
		w.next(ListenerDied{appAddr})
		w.run(time.Minute)
		w.wantExit(ReasonQuiet, 10*time.Second, half)
	}
}

// Who hears no deaths cannot know that nothing listened: the pod lasts as long as the usual sleep.
func TestDeafDrainNeverTakesThePodForEmpty(t *testing.T) {
	w := newWorld(t, Config{Min: 10 * time.Second})
	w.m = NewMachine(Config{Min: 10 * time.Second})
	w.listening = false
	w.next(Degraded{Text: "no events", Blind: true})
	w.trigger()
	w.next(Terminated{})
	w.run(time.Minute)
	w.wantExit(ReasonBlind, blindHold, half)
}

// A death told late belongs to the drain, though its listener is in no list.
func TestPortToldLateIsArmed(t *testing.T) {
	w := newWorld(t, Config{})
	w.m = NewMachine(Config{})
	w.listening = false
	w.trigger()
	w.next(ListenerDied{appAddr})
	w.next(ListenerDied{appAddr})
	if len(w.armed) != 1 || w.armed[0].Addr != appAddr {
		t.Errorf("armed %v", w.armed)
	}
}

func TestConnectionInTheAcceptQueueIsNotTheApps(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.appExits()
	w.next(Took{takeover.Listener{Addr: appAddr}})
	w.conns[w.open(envoy)].Inode = 0
	w.next(Terminated{})
	w.run(6 * time.Second)
	w.wantExit(ReasonQuiet, 5*time.Second, half)
}

func TestRefusedSYNsAreActivityInResetMode(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.next(Terminated{})
	w.appExits()
	for i := 0; w.since() < 6*time.Second; i++ {
		w.refused += uint64(1 + i%3)
		w.segs++
		w.run(170 * time.Millisecond)
	}
	w.run(20 * time.Second)
	w.wantExit(ReasonQuiet, 11*time.Second, half)
	if w.words.Refused == 0 {
		t.Error("nothing counted as refused")
	}
}

func TestNoRefusedSYNIsCountedWhileThePortIsTaken(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.appExits()
	w.next(Took{takeover.Listener{Addr: appAddr}})
	w.refused = 50
	w.run(time.Second)
	w.next(Gave{takeover.Listener{Addr: appAddr}})
	w.refused = 53
	w.run(time.Second)
	if w.m.refused != 3 {
		t.Errorf("%d refused, want 3", w.m.refused)
	}
}

func TestObserveOnlyArmsNothingAndLeavesWithTheApp(t *testing.T) {
	w := newWorld(t, Config{ObserveOnly: true, Min: 10 * time.Second})
	w.trigger()
	w.next(Terminated{})
	w.run(time.Second)
	w.appExits()
	w.run(time.Second)
	w.wantExit(ReasonObserved, time.Second, half)
	if len(w.armed) > 0 {
		t.Errorf("armed %v", w.armed)
	}
}

func TestLateSIGTERMAfterAManualDrainStartsTheClockAnew(t *testing.T) {
	w := newWorld(t, Config{})
	w.open(envoy)
	w.trigger()
	w.run(time.Hour)
	w.next(Terminated{})
	w.run(10 * time.Second)
	if !w.exitedAt.IsZero() {
		t.Fatal("left while the application serves, though its grace period has just begun")
	}
	w.run(time.Minute)
	w.wantExit(ReasonDeadline, time.Hour+29*time.Second, half)
}

func TestLastWordsFitATerminationMessage(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	for i := range 3000 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 0x0a020000+uint32(i))
		w.once(netip.AddrFrom4(b), 300+i%200)
	}
	words := w.m.words(w.now, "exit")
	if len(words.Sending) != maxSending {
		t.Errorf("%d sources named", len(words.Sending))
	}
}
