package netns_test

import (
	"net/netip"
	"slices"
	"testing"

	"lameduck/netns"
	"lameduck/netns/netnstest"
)

func TestAddressesAndGatewaysAreToldWithoutPrivilege(t *testing.T) {
	v4, v4Gateway := netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("10.9.0.2/24")
	v6, v6Gateway := netip.MustParsePrefix("fd09::1/64"), netip.MustParsePrefix("fd09::2/64")
	prepare := func(pod *netnstest.Namespace) {
		netnstest.Veth(t, "pod0", pod, netnstest.New(t), v4, v4Gateway, v6, v6Gateway)
		pod.Do(t, func() {
			for _, gateway := range []netip.Addr{v4Gateway.Addr(), v6Gateway.Addr()} {
				if err := netnstest.DefaultRoute(gateway); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	netnstest.RunUnprivileged(t, prepare, func(t *testing.T) {
		addrs, err := netns.Addresses()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []netip.Addr{v4.Addr(), v6.Addr(), netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
			if !slices.Contains(addrs, want) {
				t.Errorf("addresses %v lack %s", addrs, want)
			}
		}
		gateways, err := netns.Gateways()
		if err != nil || !slices.Equal(gateways, []netip.Addr{v4Gateway.Addr(), v6Gateway.Addr()}) {
			t.Errorf("gateways %v, %v", gateways, err)
		}
	})
}

func TestNamespaceWithoutRoutesHasNoGateway(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		if gateways, err := netns.Gateways(); err != nil || len(gateways) != 0 {
			t.Errorf("%v, %v", gateways, err)
		}
	})
}
