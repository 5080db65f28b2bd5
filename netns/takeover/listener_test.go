package takeover

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"lameduck/netns/sockdiag"
)

func TestListenersOwnAddressAndV6OnlyAreTaken(t *testing.T) {
	for name, c := range map[string]struct {
		listener         Listener
		overIPv4, overV6 bool
	}{
		"an IPv4 address":  {Listener{Addr: at(podIP, appPort)}, true, false},
		"an IPv6 address":  {Listener{Addr: at(podIPv6, appPort), V6Only: true}, false, true}, // the kernel makes such a socket so
		"any IPv4":         {Listener{Addr: at(netip.IPv4Unspecified(), appPort)}, true, false},
		"dual-stack":       {Listener{Addr: at(netip.IPv6Unspecified(), appPort)}, true, true},
		"IPv6 only":        {Listener{Addr: at(netip.IPv6Unspecified(), appPort), V6Only: true}, false, true},
		"a mapped address": {Listener{Addr: at(netip.AddrFrom16(podIP.As16()), appPort)}, true, false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			inPod(t, func(t *testing.T) {
				serveAt(t, at(peerIP, 9090), answersLine("peer"))
				w := run(t, Options{Targets: toPeer}, nil)
				w.take(c.listener)
				var found []sockdiag.Socket
				d, err := sockdiag.Open()
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				q := sockdiag.Query{Ports: []uint16{appPort}, States: sockdiag.Of(sockdiag.Listen)}
				if err := d.Dump(q, func(s *sockdiag.Socket) bool { found = append(found, *s); return true }); err != nil {
					t.Fatal(err)
				}
				want := at(c.listener.Addr.Addr().Unmap(), appPort)
				if len(found) != 1 || found[0].Local != want || found[0].V6Only != c.listener.V6Only {
					t.Errorf("listening: %+v", found)
				}
				for to, reached := range map[netip.Addr]bool{podIP: c.overIPv4, podIPv6: c.overV6} {
					reach(t, w, to, reached)
				}
			})
		})
	}
}

// reach connects to the pod at one of its addresses, whose connection must then be the takeover's.
func reach(t *testing.T, w *world, ip netip.Addr, reached bool) {
	t.Helper()
	from := clientIP
	if ip.Is6() {
		from = peerIPv6
	}
	c, err := tryDial(from, at(ip, appPort))
	if !reached {
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s is not refused: %v", ip, err)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", ip, err)
		return
	}
	defer c.Close()
	local, remote := at(ip, appPort), addrPort(c.LocalAddr())
	until(t, "the connection is owned", func() bool { return w.owns(local, remote) })
	_, _ = c.Write([]byte{0})
	_ = c.CloseWrite()
	if b, err := io.ReadAll(c); string(b) != "peer\n" {
		t.Errorf("%s: %q, %v", ip, b, err)
	}
	until(t, "the relay ends", func() bool { return w.taker.Stats().Open == 0 })
	if !w.owns(local, remote) {
		t.Error("the end of the connection, which the kernel reports late, is not owned")
	}
	if w.owns(local, at(otherIP, 1)) {
		t.Error("a foreign connection is owned")
	}
}

func TestPrivilegedPortIsTakenWhereTheKernelAllows(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), answersLine("peer"))
		w := run(t, Options{Targets: toPeer}, nil)
		w.take(Listener{Addr: at(podIP, 80)})
		if got, err := ask(at(podIP, 80)); got != "peer" {
			t.Errorf("%q, %v", got, err)
		}
	}, "ipv4/ip_unprivileged_port_start=80")
}

func TestForbiddenPortIsReportedOnceWithItsFix(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		var calls atomic.Int64
		w := run(t, Options{Targets: toPeer}, counted(&calls))
		w.taker.Arm(Listener{Addr: at(podIP, 80)})
		w.log.await(t, "net.ipv4.ip_unprivileged_port_start")
		first := calls.Load()
		until(t, "20 further attempts", func() bool { return calls.Load() > first+20 })
		if n := w.log.count("ip_unprivileged_port_start"); n != 1 {
			t.Errorf("said %d times", n)
		}
		w.quiet()
	})
}
