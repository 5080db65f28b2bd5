package takeover

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

var (
	anyListener = Listener{Addr: at(netip.IPv4Unspecified(), appPort)}
	hairpin     = netip.MustParseAddr("10.9.0.7") // routed to the pod like a Service's address, and none of its own
)

// ends tells whether an answer is that of a connection which went nowhere, and has ended.
func ends(got string, err error) bool {
	return got == "" && (err == nil || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.ECONNREFUSED))
}

// C32: a target whose only endpoint is this pod.
func TestTargetThatLeadsBackToThePodMakesNoLoop(t *testing.T) {
	inPod(t, func(t *testing.T) {
		app := serveAt(t, anyListener.Addr, answersLine("app"))
		w := run(t, Options{Targets: []Target{{Host: at(hairpin, appPort).String()}}}, nil)
		w.taker.Arm(anyListener)
		until(t, "the application answers as a peer", func() bool { return w.taker.Stats().PeersAnswer == 1 })
		until(t, "its probe is over", w.probed)
		app.end()
		w.taker.Kick()
		w.await(Taken)
		for range 20 {
			if got, err := ask(at(podIP, appPort)); !ends(got, err) {
				t.Errorf("%q, %v", got, err)
			}
		}
		w.await(Released) // the probe that follows a takeover meets ourselves
		if !refused(at(podIP, appPort)) {
			t.Error("not refused")
		}
		until(t, "it is over", func() bool { return w.taker.Stats().Open == 0 })
		if s := w.taker.Stats(); s.Looped == 0 || s.Relayed > 20 {
			t.Errorf("%+v", s)
		}
		if w.log.count("a relayed connection came back") != 1 {
			t.Errorf("log:\n%s", w.log)
		}
	})
}

// C32, with the mark alone between one connection and a loop: the probes are deceived.
func TestMarkedConnectionIsNeverRelayed(t *testing.T) {
	for name, c := range map[string]struct {
		taken  Listener
		target netip.AddrPort
	}{
		"IPv4":       {anyListener, at(hairpin, appPort)},
		"IPv6":       {Listener{Addr: at(netip.IPv6Unspecified(), appPort), V6Only: true}, at(netip.MustParseAddr("fd09::7"), appPort)},
		"dual-stack": {Listener{Addr: at(netip.IPv6Unspecified(), appPort)}, at(hairpin, appPort)},
	} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(t *testing.T) {
				w := run(t, Options{Targets: []Target{{Host: c.target.String()}}}, deceived)
				w.take(c.taken)
				client, err := tryDial(netip.Addr{}, c.target)
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				_, _ = client.Write([]byte{0})
				if n, err := client.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("%d, %v", n, err)
				}
				until(t, "it is over", func() bool { return w.taker.Stats().Open == 0 })
				if s := w.taker.Stats(); s.Relayed+s.Failed != 1 || s.Looped < 1 || s.Looped > tries {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// C32, through a second port of the same pod: each is the other's target.
func TestTwoPortsThatAreEachOthersTargetMakeNoLoop(t *testing.T) {
	inPod(t, func(t *testing.T) {
		second := Listener{Addr: at(netip.IPv4Unspecified(), appPort+1)}
		opts := Options{Targets: []Target{
			{Port: appPort, Host: at(hairpin, appPort+1).String()},
			{Port: appPort + 1, Host: at(hairpin, appPort).String()},
		}}
		w := run(t, opts, deceived)
		w.take(anyListener)
		w.take(second)
		if got, err := ask(at(podIP, appPort)); !ends(got, err) {
			t.Errorf("%q, %v", got, err)
		}
		until(t, "it is over", func() bool { return w.taker.Stats().Open == 0 })
		// The reset may come so soon that the dial itself fails, and is tried again.
		if s := w.taker.Stats(); s.Relayed+s.Failed != 1 || s.Looped < 1 || s.Looped > tries {
			t.Errorf("%+v", s)
		}
	})
}

// C16, C32: two pods that die together, each of which is the other's peer, let go of their ports: the kernels refuse.
func TestTwoTakersThatAreEachOthersPeerLetGo(t *testing.T) {
	inPod(t, func(t *testing.T) {
		one, two := Listener{Addr: at(hairpin, appPort)}, Listener{Addr: at(otherIP, appPort)}
		apps := []*peerServer{serveAt(t, one.Addr, answersLine("app")), serveAt(t, two.Addr, answersLine("app"))}
		worlds := []*world{
			run(t, Options{Targets: []Target{{Host: two.Addr.String()}}}, nil),
			run(t, Options{Targets: []Target{{Host: one.Addr.String()}}}, nil),
		}
		for i, l := range []Listener{one, two} {
			worlds[i].taker.Arm(l)
			until(t, "the other answers", func() bool { return worlds[i].taker.Stats().PeersAnswer == 1 })
		}
		for i, app := range apps {
			app.end()
			worlds[i].taker.Kick()
		}
		until(t, "both let go", func() bool {
			for i, l := range []Listener{one, two} {
				if got, err := ask(l.Addr); !ends(got, err) {
					t.Fatalf("%q, %v", got, err)
				}
				if worlds[i].taker.Stats().PeersAnswer != 0 {
					return false
				}
			}
			return refused(one.Addr) && refused(two.Addr)
		})
		for _, w := range worlds {
			until(t, "it is over", func() bool { return w.taker.Stats().Open == 0 })
		}
	})
}

// probed tells whether no probe is under way.
func (w *world) probed() bool {
	ps := w.taker.peers
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.byAddr {
		if p.probing || p.due {
			return false
		}
	}
	return true
}

// deceived makes every probe succeed.
func deceived(sys *system) {
	sys.probe = answersAlways
}

// The mark is the SYN's alone: what is relayed travels as any other traffic.
func TestOnlyTheSYNOfADialIsMarked(t *testing.T) {
	inPod(t, func(t *testing.T) {
		for _, peer := range []netip.AddrPort{at(peerIP, 9090), at(peerIPv6, 9090)} {
			fd, err := openSocket(Listener{Addr: peer})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(unix.Bind(fd, sockaddr(peer)), unix.Listen(fd, 1)); err != nil {
				t.Fatal(err)
			}
			ln, err := adopt(fd)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			c, err := dial(t.Context(), peer)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			accepted, err := ln.AcceptTCP()
			if err != nil {
				t.Fatal(err)
			}
			defer accepted.Close()
			if !marked(accepted) {
				t.Errorf("%s: the SYN bears no mark", peer)
			}
			if tos := tosOf(t, c, peer.Addr().Is6()); tos != 0 {
				t.Errorf("%s: what follows bears %#x", peer, tos)
			}
			plain, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(peer))
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			if accepted, err = ln.AcceptTCP(); err != nil {
				t.Fatal(err)
			}
			defer accepted.Close()
			if marked(accepted) {
				t.Errorf("%s: a plain SYN bears the mark", peer)
			}
		}
	})
}

func tosOf(t *testing.T, c *net.TCPConn, v6 bool) (tos int) {
	t.Helper()
	err := control(c, func(fd int) (err error) {
		if v6 {
			tos, err = unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS)
		} else {
			tos, err = unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tos
}

// A Service's address leads to this pod for one connection and to another endpoint for the next: the port is kept.
func TestAddressThatLeadsHereNowAndThenIsKept(t *testing.T) {
	inPod(t, func(t *testing.T) {
		var n atomic.Int64
		serveAt(t, at(peerIP, 9090), func(c *net.TCPConn) {
			if n.Add(1)%2 == 0 { // as the looped connection is reset
				reset(c)
				return
			}
			answersLine("peer")(c)
		})
		w := run(t, Options{Targets: toPeer}, nil)
		w.take(appListener)
		answered := 0
		for range 100 {
			switch got, err := ask(appListener.Addr); {
			case got == "peer":
				answered++
			case !ends(got, err):
				t.Fatalf("%q, %v", got, err)
			}
		}
		if answered < 30 {
			t.Errorf("%d of 100 were answered", answered)
		}
		w.quiet()
	})
}
