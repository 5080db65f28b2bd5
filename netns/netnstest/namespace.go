// Package netnstest makes network namespaces for tests, and runs tests in them without privilege. Only tests import it.
//
// A package that uses it starts its tests through Main: without root it then has a user namespace in which it may make
// network namespaces, where the machine allows that.
package netnstest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"lameduck/netns"
)

// Namespace is a network namespace that lives until the end of the test that made it, or of the last process or socket
// in it.
type Namespace struct {
	file *os.File
}

// New makes a network namespace whose loopback interface is up. It skips the test where the kernel refuses that.
func New(t testing.TB) *Namespace {
	t.Helper()
	file, err := unshare()
	if errors.Is(err, unix.EPERM) {
		t.Skipf("no new network namespace here: %v", err)
	}
	if err != nil {
		t.Fatalf("new network namespace: %v", err)
	}
	t.Cleanup(func() { file.Close() })
	n := &Namespace{file: file}
	n.Do(t, func() {
		if err := up("lo"); err != nil {
			t.Fatal(err)
		}
	})
	return n
}

const own = "/proc/thread-self/ns/net"

func unshare() (file *os.File, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		home, openErr := os.Open(own)
		if openErr != nil {
			err = openErr
			return
		}
		defer home.Close()
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			file, err = os.Open(own)
		}
		// Back, and not out with the thread: where it is the process's first one the runtime keeps it for good.
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		}
	}()
	<-done
	return file, err
}

// Path names the namespace to this process and, as long as this process lives, to others of the same user.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// Do runs fn in the namespace, on a thread of its own: sockets that fn opens itself belong to the namespace, goroutines
// that fn starts do not.
func (n *Namespace) Do(t testing.TB, fn func()) {
	t.Helper()
	ended := false
	err := netns.Do(n.Path(), func() error {
		fn()
		ended = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !ended {
		t.FailNow() // fn has failed or skipped the test on its goroutine; here it ends on the test's own
	}
}

// Veth joins two namespaces by a pair of interfaces, both named name, with one address each of the same prefix, and as
// many pairs of addresses as are given: a's, then b's.
func Veth(t testing.TB, name string, a, b *Namespace, addrs ...netip.Prefix) {
	t.Helper()
	if len(addrs)%2 != 0 {
		t.Fatal("addresses come in pairs")
	}
	a.Do(t, func() {
		link := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name, PeerNamespace: netlink.NsFd(b.file.Fd()),
		}
		if err := netlink.LinkAdd(link); err != nil {
			t.Fatalf("veth: %v", err)
		}
	})
	for i, n := range []*Namespace{a, b} {
		n.Do(t, func() {
			for j := i; j < len(addrs); j += 2 {
				if err := address(name, addrs[j]); err != nil {
					t.Fatal(err)
				}
			}
			if err := up(name); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// DefaultRoute gives the calling thread's namespace a default route: use it within Do.
func DefaultRoute(gateway netip.Addr) error {
	if err := netlink.RouteAdd(&netlink.Route{Gw: gateway.AsSlice()}); err != nil {
		return fmt.Errorf("default route by %s: %w", gateway, err)
	}
	return nil
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("link %s up: %w", name, err)
	}
	return nil
}

func address(name string, prefix netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	addr, err := netlink.ParseAddr(prefix.String())
	if err != nil {
		return err
	}
	addr.Flags = unix.IFA_F_NODAD // an IPv6 address is usable at once
	if err := netlink.AddrAdd(link, addr); err != nil {
		return fmt.Errorf("address %s on %s: %w", prefix, name, err)
	}
	return nil
}
