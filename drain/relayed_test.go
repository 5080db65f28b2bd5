package drain

import (
	"testing"
	"time"
)

// Checks that lameduck cannot fail are relayed, to the pod's end where its host is DRAINING: in TLS, and over raw TCP. They
// are trains as on the application's own connections.
func TestTrainsOnRelayedConnectionsDoNotHoldDrain(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int // 0: none
		kept  bool
		until time.Duration
	}{
		"in TLS, on new connections":     {bytes: 700, until: 7 * time.Second}, // known at the sixth
		"in TLS, on a kept connection":   {bytes: 87, kept: true, until: 8 * time.Second},
		"by TCP with a message":          {bytes: 20, until: 5 * time.Second},
		"by TCP, no more than connected": {until: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{GracePeriod: 60 * time.Second})
			w.trigger()
			w.takeover()
			var check uint64
			if c.kept {
				check = w.open(envoy)
				w.request(check, 700) // the handshake
			}
			for w.since() < 40*time.Second && w.exitedAt.IsZero() {
				if w.since() == 0 {
					w.once(envoy, 3000) // real traffic
				}
				switch {
				case c.kept:
					w.request(check, c.bytes)
				case c.bytes == 0:
					w.close(w.open(envoy))
				default:
					w.once(envoy, c.bytes)
				}
				w.run(time.Second)
			}
			w.wantExit(ReasonQuiet, 5*time.Second, c.until-5*time.Second+half)
		})
	}
}

// What a peer has not answered yet is owed as the application's answers are.
func TestRelayedRequestIsOwedItsAnswer(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	w.trigger()
	w.takeover()
	c := w.open(envoy)
	w.send(c, 300)
	w.run(20 * time.Second)
	if w.m.connections != 0 || !w.exitedAt.IsZero() {
		t.Errorf("%d connections of the application, exit at %v", w.m.connections, w.exitedAt)
	}
	w.answer(c)
	w.run(20 * time.Second)
	w.wantExit(ReasonQuiet, 20*time.Second, sendingFor+half)
}

// A relayed stream on which nobody says anything ends with lameduck, as an idle connection does.
func TestSilentRelayedStreamDoesNotHoldLameduck(t *testing.T) {
	w := newWorld(t, Config{GracePeriod: 60 * time.Second})
	w.trigger()
	w.takeover()
	w.request(w.open(envoy), 300)
	w.run(20 * time.Second)
	w.wantExit(ReasonQuiet, 5*time.Second, half)
}
