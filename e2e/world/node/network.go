package node

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"lameduck/e2e/world"
)

// The node's own addresses: every pod's default gateway, and where kubelet probes come from.
var (
	gateway4 = netip.MustParseAddr("10.1.0.1")
	gateway6 = netip.MustParseAddr("fd00:1::1")
)

// address is a place's IPv4 and IPv6 address.
type address struct{ v4, v6 netip.Addr }

func (a address) all() []netip.Addr { return []netip.Addr{a.v4, a.v6} }

func (a address) family(ipv6 bool) netip.Addr {
	if ipv6 {
		return a.v6
	}
	return a.v4
}

func podAddress(i int) address {
	return address{netip.AddrFrom4([4]byte{10, 1, 0, byte(10 + i)}), netip.MustParseAddr(fmt.Sprintf("fd00:1::%x", 10+i))}
}

func envoyAddress(i int) address {
	return address{netip.AddrFrom4([4]byte{10, 2, 0, byte(10 + i)}), netip.MustParseAddr(fmt.Sprintf("fd00:2::%x", 10+i))}
}

func clientAddress() address {
	return address{netip.MustParseAddr("10.3.0.10"), netip.MustParseAddr("fd00:3::10")}
}

// network is the router: the namespace that this process is in. Each place hangs on a veth pair of its own with routed
// /32 and /128 addresses, as CNI's ptp plugin does it.
type network struct{}

// newNetwork makes this process's namespace a router.
func newNetwork() (network, error) {
	for path, value := range map[string]string{
		"/proc/sys/net/ipv4/ip_forward":             "1",
		"/proc/sys/net/ipv6/conf/all/forwarding":    "1",
		"/proc/sys/net/ipv4/conf/all/rp_filter":     "0",
		"/proc/sys/net/ipv4/conf/default/rp_filter": "0",
	} {
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return network{}, fmt.Errorf("make a router: %w", err)
		}
	}
	here, err := netlink.NewHandle()
	if err != nil {
		return network{}, err
	}
	defer here.Close()
	if err := linkUp(here, "lo"); err != nil {
		return network{}, err
	}
	return network{}, addVoid(here)
}

// void is a link whose other end nobody answers at.
const void = "void"

func addVoid(here *netlink.Handle) error {
	link := &netlink.Veth{LinkAttrs: attrs(void), PeerName: "void-peer"}
	if err := here.LinkAdd(link); err != nil {
		return fmt.Errorf("void link: %w", err)
	}
	for _, name := range []string{void, "void-peer"} {
		if err := linkUp(here, name); err != nil {
			return err
		}
	}
	return nil
}

// attach makes a namespace with the given addresses, reachable through the router under the link's name.
func (network) attach(link string, at address) (*namespace, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	here, err := netlink.NewHandle()
	if err != nil {
		return nil, err
	}
	defer here.Close()
	there, err := netlink.NewHandleAt(netns.NsHandle(int(ns.file.Fd())))
	if err != nil {
		return nil, err
	}
	defer there.Close()
	pair := &netlink.Veth{LinkAttrs: attrs(link), PeerName: "eth0", PeerNamespace: netlink.NsFd(int(ns.file.Fd()))}
	if err := here.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("veth %s: %w", link, err)
	}
	if err := nearEnd(here, link, at); err != nil {
		return nil, fmt.Errorf("near end of %s: %w", link, err)
	}
	if err := farEnd(there, at); err != nil {
		return nil, fmt.Errorf("far end of %s: %w", link, err)
	}
	return ns, nil
}

func nearEnd(here *netlink.Handle, name string, at address) error {
	link, err := setUp(here, name, gateway4, gateway6)
	if err != nil {
		return err
	}
	for _, a := range at.all() {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: host(a), Scope: netlink.SCOPE_LINK}
		if err := here.RouteReplace(route); err != nil {
			return fmt.Errorf("route to %s: %w", a, err)
		}
	}
	return nil
}

func farEnd(there *netlink.Handle, at address) error {
	if err := linkUp(there, "lo"); err != nil {
		return err
	}
	link, err := setUp(there, "eth0", at.v4, at.v6)
	if err != nil {
		return err
	}
	for _, gw := range []netip.Addr{gateway4, gateway6} {
		near := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: host(gw), Scope: netlink.SCOPE_LINK}
		if err := there.RouteAdd(near); err != nil {
			return fmt.Errorf("route to gateway: %w", err)
		}
		far := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gw.AsSlice()}
		if err := there.RouteAdd(far); err != nil {
			return fmt.Errorf("default route: %w", err)
		}
	}
	return nil
}

// setUp gives a link its addresses and switches it on.
func setUp(h *netlink.Handle, name string, addrs ...netip.Addr) (netlink.Link, error) {
	link, err := h.LinkByName(name)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		addr := &netlink.Addr{IPNet: host(a)}
		if a.Is6() {
			addr.Flags = unix.IFA_F_NODAD // else it is tentative, and unusable, for a second
		}
		if err := h.AddrAdd(link, addr); err != nil {
			return nil, fmt.Errorf("address %s: %w", a, err)
		}
	}
	return link, h.LinkSetUp(link)
}

// divert ends a pod's address: what is sent to it vanishes, or meets a link where nobody is.
func (network) divert(at address, gone world.Gone) error {
	here, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer here.Close()
	nowhere, err := here.LinkByName(void)
	if err != nil {
		return err
	}
	for _, a := range at.all() {
		route := &netlink.Route{Dst: host(a), Type: unix.RTN_BLACKHOLE}
		if gone == world.Unreachable {
			route = &netlink.Route{Dst: host(a), LinkIndex: nowhere.Attrs().Index, Scope: netlink.SCOPE_LINK}
		}
		if err := here.RouteReplace(route); err != nil {
			return fmt.Errorf("divert %s: %w", a, err)
		}
	}
	return nil
}

// detach takes a place's link away.
func (network) detach(link string) error {
	here, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer here.Close()
	pair, err := here.LinkByName(link)
	if err != nil {
		return err
	}
	return here.LinkDel(pair)
}

func linkUp(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return h.LinkSetUp(link)
}

func attrs(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

// host is the network that holds one address alone.
func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}
