package takeover

import (
	"errors"
	"io"
	"net/netip"
	"testing"
)

func errIs(err, target error) bool { return errors.Is(err, target) }

func TestRelaySmoke(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		app := bindTo(t, at(podIP, appPort))
		w := run(t, Options{Targets: []Target{{Host: "10.9.0.2:9090"}}}, nil)
		w.taker.Arm(Listener{Addr: at(podIP, appPort)})
		until(t, "peer answers", func() bool { return w.taker.Stats().PeersAnswer == 1 })
		w.quiet()
		app.Close()
		w.taker.Kick()
		w.await(Taken)
		c := dialFrom(t, clientIP, at(podIP, appPort))
		io.WriteString(c, "\x16hello")
		c.CloseWrite()
		b, err := io.ReadAll(c)
		if string(b) != "\x16hello" || err != nil {
			t.Fatal(string(b), err)
		}
		until(t, "closed", func() bool { return w.taker.Stats().Open == 0 })
		if !w.taker.Owns(at(podIP, appPort), c.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()) {
			t.Error("not owned")
		}
		t.Log(w.taker.Stats(), w.log)
	})
}
