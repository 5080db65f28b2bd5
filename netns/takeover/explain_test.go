package takeover

import (
	"net/netip"
	"testing"
)

// nginx listens on 0.0.0.0 and on [::] for IPv6 only. Who does not know the latter tries for both families at once, in vain.
func TestPortThatIsInUseThoughTheAppHasGoneIsSaidOnce(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		asked := make(chan uint16, 10)
		var w *world
		t.Cleanup(func() { // when it has ended, all has been said
			if n := w.log.count("level=WARN"); n != 1 || w.log.count("own=[0.0.0.0:8080]") != 1 {
				t.Errorf("said %d times:\n%s", n, w.log)
			}
		})
		w = run(t, Options{Targets: toPeer}, func(sys *system) {
			listeners := sys.listeners
			sys.listeners = func(port uint16) ([]netip.AddrPort, error) {
				defer func() { asked <- port }()
				return listeners(port)
			}
		})
		v4, v6 := at(netip.IPv4Unspecified(), appPort), at(netip.IPv6Unspecified(), appPort)
		w.take(Listener{Addr: v4})
		w.taker.Arm(Listener{Addr: v6})
		w.taker.Kick()
		w.log.await(t, "in use though the application does not listen")
		receive(t, asked)
		w.taker.Kick() // another listener has died
		receive(t, asked)
		w.quiet()
	})
}

func TestAppThatListensElsewhereOnThePortIsNotInTheWay(t *testing.T) {
	ip := func(s string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(s), appPort) }
	for _, c := range []struct {
		a, b netip.AddrPort
		want bool
	}{
		{ip("10.9.0.1"), ip("10.9.0.1"), true},
		{ip("10.9.0.1"), ip("127.0.0.1"), false},
		{ip("10.9.0.1"), ip("0.0.0.0"), true},
		{ip("::"), ip("0.0.0.0"), true},
		{ip("::"), ip("fd09::1"), true},
		{ip("fd09::1"), ip("10.9.0.1"), false},
		{ip("0.0.0.0"), netip.AddrPortFrom(podIP, appPort+1), false},
	} {
		if overlap(c.a, c.b) != c.want || overlap(c.b, c.a) != c.want {
			t.Errorf("%s and %s: not %t", c.a, c.b, c.want)
		}
	}
}
