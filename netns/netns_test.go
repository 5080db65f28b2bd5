package netns_test

import (
	"net/netip"
	"slices"
	"testing"

	"lameduck/netns"
	"lameduck/netns/netnstest"
)

func TestDoActsInTheOtherNamespaceAlone(t *testing.T) {
	a, b := netnstest.New(t), netnstest.New(t)
	v4a, v4b := netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("10.9.0.2/24")
	v6a, v6b := netip.MustParsePrefix("fd09::1/64"), netip.MustParsePrefix("fd09::2/64")
	netnstest.Veth(t, "pod0", a, b, v4a, v4b, v6a, v6b)
	a.Do(t, func() {
		for _, gateway := range []netip.Addr{v4b.Addr(), v6b.Addr()} {
			if err := netnstest.DefaultRoute(gateway); err != nil {
				t.Fatal(err)
			}
		}
		addrs, err := netns.Addresses()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []netip.Addr{v4a.Addr(), v6a.Addr(), netip.MustParseAddr("127.0.0.1")} {
			if !slices.Contains(addrs, want) {
				t.Errorf("addresses %v lack %s", addrs, want)
			}
		}
		gateways, err := netns.Gateways()
		if err != nil || !slices.Equal(gateways, []netip.Addr{v4b.Addr(), v6b.Addr()}) {
			t.Errorf("gateways %v, %v", gateways, err)
		}
		if inside, err := netns.Inside(a.Path()); err != nil || !inside {
			t.Errorf("inside: %v, %v", inside, err)
		}
	})
	if inside, err := netns.Inside(a.Path()); err != nil || inside {
		t.Errorf("inside after Do: %v, %v", inside, err)
	}
}

func TestCountersAreRead(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		counters, err := netns.OpenCounters()
		if err != nil {
			t.Fatal(err)
		}
		defer counters.Close()
		if _, err := counters.Read(); err != nil {
			t.Fatal(err)
		}
	})
}
