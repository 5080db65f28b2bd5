package node

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// network gives the node an address and a way out that leads nowhere: a link with both ends in this namespace, and a
// neighbour on it that does not exist. A packet to an address that is gone vanishes there, as on a routed network.
func network() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	near := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "void"}
	if err := netlink.LinkAdd(near); err != nil {
		return fmt.Errorf("add link: %w", err)
	}
	void, err := netlink.LinkByName("void")
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(IP + "/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(near, address); err != nil {
		return fmt.Errorf("add address: %w", err)
	}
	for _, link := range []netlink.Link{near, void} {
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
	}
	nobody := net.IPv4(10, 77, 0, 254)
	if err := netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: near.Attrs().Index, State: unix.NUD_PERMANENT, IP: nobody,
		HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 254},
	}); err != nil {
		return fmt.Errorf("add neighbour: %w", err)
	}
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: near.Attrs().Index, Gw: nobody}); err != nil {
		return fmt.Errorf("add default route: %w", err)
	}
	return nil
}
