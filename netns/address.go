package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A dump of rtnetlink that a change interrupts is made again this often, then taken as it is.
const rtnetlinkTries = 3

// Addresses returns the addresses of the calling thread's network namespace, loopback's included, without zones.
func Addresses() ([]netip.Addr, error) {
	list, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("netns: addresses: %w", err)
	}
	var addrs []netip.Addr
	for _, a := range list {
		if a.IPNet == nil {
			continue
		}
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs, nil
}

// Gateways returns the gateways of the default routes, IPv4 and IPv6, of the calling thread's network namespace: on
// many CNIs that is where the kubelet's probes come from.
func Gateways() ([]netip.Addr, error) {
	var gateways []netip.Addr
	add := func(ip []byte) {
		if addr, ok := netip.AddrFromSlice(ip); ok && !slices.Contains(gateways, addr.Unmap()) {
			gateways = append(gateways, addr.Unmap())
		}
	}
	for _, family := range [...]int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := dump(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return nil, fmt.Errorf("netns: routes: %w", err)
		}
		for _, route := range routes {
			if !isDefault(route) {
				continue
			}
			add(route.Gw)
			for _, hop := range route.MultiPath {
				add(hop.Gw)
			}
		}
	}
	return gateways, nil
}

func isDefault(route netlink.Route) bool {
	if route.Dst == nil {
		return true
	}
	ones, _ := route.Dst.Mask.Size()
	return ones == 0 && route.Dst.IP.IsUnspecified()
}

func dump[T any](list func() ([]T, error)) (all []T, err error) {
	for range rtnetlinkTries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return all, nil
}
