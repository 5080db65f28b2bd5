package node

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"lameduck/e2e/world"
)

// service is a Service's address, which leads to the first pod.
var service = netip.AddrPortFrom(netip.MustParseAddr("10.96.0.1"), world.AppPort)

// Where the IP header has its addresses, and the TCP header its destination port.
const (
	ipSource, ipDestination = 12, 16
	tcpDestination          = 2
)

// translate makes the router rewrite addresses, by the kernel's own NAT, as kube-proxy does it: IPv4 only.
func (network) translate(spec world.Spec) error {
	if !spec.Envoy.NAT && !spec.Sidecar.RelayToService {
		return nil
	}
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "world"})
	after := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	if spec.Envoy.NAT {
		for i := range spec.Envoy.Count {
			conn.AddRule(&nftables.Rule{Table: table, Chain: after,
				Exprs: append(address4(ipSource, envoyAddress(i).v4), &expr.Masq{})})
		}
	}
	if spec.Sidecar.RelayToService {
		pod := podAddress(0).v4
		before := conn.AddChain(&nftables.Chain{
			Name: "prerouting", Table: table, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest,
		})
		conn.AddRule(&nftables.Rule{Table: table, Chain: before, Exprs: append(
			address4(ipDestination, service.Addr()),
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			equal([]byte{unix.IPPROTO_TCP}),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: tcpDestination, Len: 2},
			equal(binaryutil.BigEndian.PutUint16(service.Port())),
			&expr.Immediate{Register: 1, Data: pod.AsSlice()},
			&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(world.AppPort)},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2},
		)})
		// What a pod sends to itself by way of a Service comes back from the node's address, or it would be dropped.
		conn.AddRule(&nftables.Rule{Table: table, Chain: after,
			Exprs: append(append(address4(ipSource, pod), address4(ipDestination, pod)...), &expr.Masq{})})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// address4 matches packets by one of their addresses.
func address4(offset uint32, a netip.Addr) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4},
		equal(a.AsSlice()),
	}
}

func equal(data []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }
