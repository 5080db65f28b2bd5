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

	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

var (
	appAddr = netip.MustParseAddrPort("10.0.0.5:8080")
	envoy   = netip.MustParseAddr("10.0.9.1")
	scraper = netip.MustParseAddr("10.0.9.7")
	node    = netip.MustParseAddr("10.0.0.1")
	epoch   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// world drives a machine as the kernel and the loop would: it keeps the sockets, and ticks four times a second.
type world struct {
	t         *testing.T
	m         *Machine
	now       time.Time
	conns     map[uint64]*sockdiag.Socket
	received  map[uint64]time.Time // last data in
	sent      map[uint64]time.Time // last data out
	listening bool
	queue     uint32
	segs      uint64
	refused   uint64
	cookie    uint64
	blind     error

	releasedAt, exitedAt time.Time
	words                LastWords
	armed                []takeover.Listener
	notes                []string
}

func newWorld(t *testing.T, c Config) *world {
	w := &world{t: t, m: NewMachine(c), now: epoch, conns: map[uint64]*sockdiag.Socket{},
		received: map[uint64]time.Time{}, sent: map[uint64]time.Time{}, listening: true}
	w.next(Listening{[]sockdiag.Socket{w.listener()}})
	return w
}

func (w *world) listener() sockdiag.Socket {
	return sockdiag.Socket{Local: appAddr, State: sockdiag.Listen, Cookie: 1, RQueue: w.queue}
}

func (w *world) next(e Event) {
	for _, effect := range w.m.Next(w.now, e) {
		switch f := effect.(type) {
		case Release:
			if !w.releasedAt.IsZero() {
				w.t.Error("released twice")
			}
			w.releasedAt = w.now
		case Exit:
			w.exitedAt, w.words = w.now, f.Words
		case Arm:
			w.armed = append(w.armed, f.Listener)
		case Note:
			text := f.Message
			for _, a := range f.Attrs {
				text += " " + a.String()
			}
			w.notes = append(w.notes, text)
		}
	}
}

func (w *world) trigger() {
	w.next(Counted{InSegs: w.segs, Refused: w.refused})
	if w.listening {
		w.next(Listening{[]sockdiag.Socket{w.listener()}})
	} else {
		w.next(Listening{})
	}
	w.next(Triggered{By: "drain", Own: []netip.Addr{appAddr.Addr()}, Gateways: []netip.Addr{node}})
	w.sample()
}

func (w *world) sample() {
	var seen []Seen
	if w.listening {
		seen = append(seen, Seen{Socket: w.listener()})
	}
	for cookie, s := range w.conns {
		seen = append(seen, Seen{Socket: w.figures(cookie, *s)})
	}
	w.next(Sampled{Sockets: seen, Blind: w.blind})
}

func (w *world) figures(cookie uint64, s sockdiag.Socket) sockdiag.Socket {
	s.HasInfo = true
	s.Info.LastDataRecv, s.Info.LastDataSent = w.now.Sub(w.received[cookie]), w.now.Sub(w.sent[cookie])
	return s
}

// run lets time pass, with a tick every 250 ms and at each moment the machine asked for, until it exits.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for w.now.Before(end) && w.exitedAt.IsZero() {
		step := min(period, end.Sub(w.now))
		if wake := w.m.Wake(w.now); !wake.IsZero() {
			step = min(step, wake.Sub(w.now))
		}
		w.now = w.now.Add(step)
		w.next(Counted{InSegs: w.segs, Refused: w.refused})
		w.next(Tick{})
		if w.m.Stale() && w.m.phase != Serving {
			w.sample()
		}
	}
}

// open opens a connection from a source; send and answer move data on it.
func (w *world) open(from netip.Addr) uint64 {
	w.cookie++
	c := 100 + w.cookie
	w.conns[c] = &sockdiag.Socket{Local: appAddr, Remote: netip.AddrPortFrom(from, 40000+uint16(w.cookie)), Cookie: c, Inode: uint32(c), State: sockdiag.Established}
	w.received[c], w.sent[c] = w.now, w.now
	w.segs += 2
	return c
}

func (w *world) send(c uint64, bytes int) {
	w.conns[c].Info.DataSegsIn++
	w.conns[c].Info.BytesReceived += uint64(bytes)
	w.received[c] = w.now
	w.segs++
}

func (w *world) answer(c uint64) {
	w.conns[c].Info.DataSegsOut++
	w.sent[c] = w.now
	w.segs++
}

func (w *world) request(c uint64, bytes int) { w.send(c, bytes); w.answer(c) }

func (w *world) close(c uint64) {
	s := w.figures(c, *w.conns[c])
	s.Info.BytesReceived++ // the FIN
	delete(w.conns, c)
	w.segs += 2
	w.next(Ended{s})
}

// once is a request on a connection of its own.
func (w *world) once(from netip.Addr, bytes int) {
	c := w.open(from)
	w.request(c, bytes)
	w.close(c)
}

func (w *world) appExits() {
	w.listening = false
	w.next(ListenerDied{appAddr})
	for c := range w.conns {
		w.close(c)
	}
	w.sample()
}

func (w *world) since() time.Duration { return w.now.Sub(epoch) }

func (w *world) wantReleased(at, within time.Duration) {
	w.t.Helper()
	got := w.releasedAt.Sub(epoch)
	if w.releasedAt.IsZero() || got < at || got > at+within {
		w.t.Errorf("the hold was released at %v (zero: %v), want %v to %v", got, w.releasedAt.IsZero(), at, at+within)
	}
}

func (w *world) wantHeld() {
	w.t.Helper()
	if !w.releasedAt.IsZero() {
		w.t.Errorf("the hold was released at %v (%s)", w.releasedAt.Sub(epoch), w.m.released)
	}
}

func (w *world) wantExit(reason string, at, within time.Duration) {
	w.t.Helper()
	got := w.exitedAt.Sub(epoch)
	if w.exitedAt.IsZero() || got < at || got > at+within {
		w.t.Errorf("exit at %v (none: %v), want %v to %v", got, w.exitedAt.IsZero(), at, at+within)
	}
	if w.words.Reason != reason {
		w.t.Errorf("reason %q, want %q", w.words.Reason, reason)
	}
}

const half = 500 * time.Millisecond

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

func TestOwedAnswerDoesNotHoldPastHoldDeadline(t *testing.T) {
	w := newWorld(t, Config{})
	w.send(w.open(envoy), 230)
	w.trigger()
	w.run(time.Minute)
	w.wantReleased(25*time.Second, half)
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

func TestWithoutDestroyEventsHoldIsABoundedSleep(t *testing.T) {
	w := newWorld(t, Config{Min: time.Second})
	w.next(Degraded{Text: "no events", Blind: true})
	w.trigger()
	w.run(time.Minute)
	w.wantReleased(25*time.Second, half)
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

func TestToldAndSilentIsQuietAtOnce(t *testing.T) {
	w := newWorld(t, Config{Envoy: []netip.Prefix{netip.PrefixFrom(envoy, 32)}, Min: 10 * time.Second, TrustChecks: true})
	w.trigger()
	w.run(half)
	w.once(envoy, 300)
	w.next(Checked{Source: envoy, Failed: true})
	w.run(20 * time.Second)
	w.wantReleased(1500*time.Millisecond, half)
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

func TestQuietIsNeverConcludedFromAnOldSample(t *testing.T) {
	w := newWorld(t, Config{})
	w.trigger()
	w.now = w.now.Add(6 * time.Second)
	w.next(Counted{InSegs: w.segs + 1})
	w.next(Tick{})
	w.wantHeld()
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
