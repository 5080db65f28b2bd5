package takeover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/netns"
	"lameduck/netns/sockdiag"
)

// backlog is what listen asks for; the kernel cuts it to net.core.somaxconn.
const backlog = 1 << 16

// settle is how long a probed peer must leave the connection open: one that is covering itself resets
// a marked connection at once, and is no peer.
const settle = 50 * time.Millisecond

const probeTries = 5

// system is what a takeover asks of the operating system.
type system struct {
	socket func(Listener) (fd int, err error)
	bind   func(fd int, sa unix.Sockaddr) error
	listen func(fd, backlog int) error
	adopt  func(fd int) (*net.TCPListener, error) // takes the descriptor over, also on failure
	accept func(*net.TCPListener) (*net.TCPConn, error)
	dial   func(context.Context, netip.AddrPort) (*net.TCPConn, error)
	// probe dials a peer and calls connected once it has; it returns nil if the peer keeps the connection.
	probe  func(ctx context.Context, peer netip.AddrPort, connected func()) error
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	own    func() ([]netip.Addr, error)
	files  func(*slog.Logger) (limit uint64)
	// spare is what lends descriptors where there are no others.
	spare *spare
	// listeners are the addresses at which any socket of the namespace listens on the port.
	listeners func(port uint16) ([]netip.AddrPort, error)
}

func kernel() system {
	return system{
		socket:    openSocket,
		bind:      unix.Bind,
		listen:    unix.Listen,
		adopt:     adopt,
		accept:    (*net.TCPListener).AcceptTCP,
		dial:      dial,
		probe:     probe,
		lookup:    lookup,
		own:       netns.Addresses,
		files:     FileLimit,
		listeners: listeners,
		spare:     new(spare),
	}
}

// openSocket makes a socket with all its options set, bound to nothing: what is left for the moment when
// the port becomes free is bind and listen.
func openSocket(l Listener) (fd int, err error) {
	family := unix.AF_INET
	if l.Addr.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			fd = -1
		}
	}()
	// Connections of the dead listener (FIN_WAIT2, TIME_WAIT) would else keep the port for a minute.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fd, os.NewSyscallError("setsockopt SO_REUSEADDR", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_SAVE_SYN, 1); err != nil {
		return fd, os.NewSyscallError("setsockopt TCP_SAVE_SYN", err)
	}
	if family == unix.AF_INET6 {
		// Set in both cases: net.ipv6.bindv6only changes the default.
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, boolInt(l.V6Only)); err != nil {
			return fd, os.NewSyscallError("setsockopt IPV6_V6ONLY", err)
		}
	}
	return fd, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sockaddr is the address to bind, made once so that a try allocates nothing.
func sockaddr(addr netip.AddrPort) unix.Sockaddr {
	if addr.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16(), ZoneId: zoneID(addr.Addr().Zone())}
}

func zoneID(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if ifi, err := net.InterfaceByName(zone); err == nil {
		return uint32(ifi.Index)
	}
	id, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(id)
}

func adopt(fd int) (*net.TCPListener, error) {
	file := os.NewFile(uintptr(fd), "taken listener")
	defer file.Close() // FileListener has its own copy
	ln, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	return ln.(*net.TCPListener), nil
}

func dial(ctx context.Context, peer netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{ControlContext: markSYN}
	c, err := d.DialTCP(ctx, "tcp", netip.AddrPort{}, peer)
	if err != nil {
		return nil, err
	}
	_ = unmark(c, peer.Addr().Is6()) // still marked, it serves as well
	return c, nil
}

// errShuns is the error of a peer that resets or closes a connection at once.
var errShuns = errors.New("closes connections at once")

// probe asks more than once before it believes that a peer shuns: behind a Service's address the next connection may
// reach another endpoint than this pod.
func probe(ctx context.Context, peer netip.AddrPort, connected func()) (err error) {
	for range probeTries {
		if err = probeOnce(ctx, peer, connected); !errors.Is(err, errShuns) {
			return err
		}
	}
	return err
}

func probeOnce(ctx context.Context, peer netip.AddrPort, connected func()) error {
	c, err := dial(ctx, peer)
	if errors.Is(err, unix.ECONNRESET) {
		return fmt.Errorf("%w: %w", errShuns, err)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	connected()
	if err := c.SetReadDeadline(time.Now().Add(settle)); err != nil {
		return err
	}
	// A byte, or silence, is a server that waits for its client.
	var b [1]byte
	if n, err := c.Read(b[:]); n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: %w", errShuns, err)
	}
	return nil
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// listeners asks /proc, which needs neither privilege nor netlink, and at most once a listener's death.
func listeners(port uint16) (all []netip.AddrPort, err error) {
	q := sockdiag.Query{Ports: []uint16{port}, States: sockdiag.Of(sockdiag.Listen)}
	err = sockdiag.ProcDump(q, func(s *sockdiag.Socket) bool {
		all = append(all, s.Local)
		return true
	})
	return all, err
}

// control runs f on the connection's descriptor.
func control(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
