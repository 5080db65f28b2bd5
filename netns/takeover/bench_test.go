package takeover

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/netns/sockdiag"
)

// reportQuantiles reports the median, the 99th of a hundred and the worst, in microseconds.
func reportQuantiles(b *testing.B, name string, all []time.Duration) (median time.Duration) {
	slices.Sort(all)
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	median = all[len(all)/2]
	b.ReportMetric(micros(median), name+"p50-µs")
	b.ReportMetric(micros(all[len(all)*99/100]), name+"p99-µs")
	b.ReportMetric(micros(all[len(all)-1]), name+"max-µs")
	return median
}

// makeBusy keeps every core busy by processes of the same priority until the end of the benchmark.
func makeBusy(b *testing.B) {
	for range runtime.NumCPU() {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}

// BenchmarkTakeoverGap measures from before the application's close of its listener to our listen's return, with the
// kernel's event of the listener's death between them. Targets: median 200 µs idle, p99 2 ms on busy cores.
//
// kick is what the drain does: it tries in the goroutine that has read the event. handoff leaves it to the loop's.
func BenchmarkTakeoverGap(b *testing.B) {
	for _, load := range []string{"idle", "busy"} {
		for _, way := range []string{"kick", "handoff", "poll"} {
			b.Run(load+"/"+way, func(b *testing.B) {
				if load == "busy" {
					makeBusy(b)
				}
				benchmarkGap(b, way)
			})
		}
	}
}

func benchmarkGap(b *testing.B, way string) {
	var current atomic.Pointer[Takeover]
	if way != "poll" {
		stop := watchDeaths(b, func() {
			switch t := current.Load(); {
			case t == nil:
			case way == "kick":
				t.Kick()
			default:
				t.rouse()
			}
		})
		defer stop()
	}
	var gaps []time.Duration
	for b.Loop() {
		// A drain sees one death, not a row of them: without the pause this process is as busy as those that it competes
		// with, and the scheduler lets it wait its turn.
		time.Sleep(10 * time.Millisecond)
		gaps = append(gaps, gap(b, &current))
	}
	reportQuantiles(b, "", gaps)
}

// watchDeaths calls heard in the goroutine that reads the events of listeners' deaths.
func watchDeaths(b *testing.B, heard func()) (stop func()) {
	watcher, err := sockdiag.Watch()
	if err != nil {
		b.Fatal(err)
	}
	if err := watcher.FilterListeners(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = watcher.Run(ctx, func(sockdiag.Event) { heard() }) })
	return func() {
		cancel()
		work.Wait()
		watcher.Close()
	}
}

// gap lets an application die once, and returns how long its port was nobody's.
func gap(b *testing.B, current *atomic.Pointer[Takeover]) time.Duration {
	app, err := openSocket(appListener)
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(unix.Bind(app, sockaddr(appListener.Addr)), unix.Listen(app, 1)); err != nil {
		b.Fatal(err)
	}
	events := make(chan Event, 2)
	sys := kernel()
	sys.probe = answersAlways
	taker := build(Options{Targets: toPeer, Notify: func(e Event) { events <- e }}, sys)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = taker.Run(ctx) })
	defer work.Wait()
	defer cancel()
	taker.Arm(appListener)
	for prepared := false; !prepared; runtime.Gosched() { // until the first attempt has failed
		taker.mu.Lock()
		prepared = taker.ports[0].fd >= 0
		taker.mu.Unlock()
	}
	current.Store(taker)
	defer current.Store(nil)
	freed := time.Now()
	unix.Close(app)
	return (<-events).Time.Sub(freed)
}

// benchRelay takes the application's port over for a peer that serves so.
func benchRelay(b *testing.B, serve func(*net.TCPConn)) *Takeover {
	serveAt(b, at(peerIP, 9090), serve)
	events := make(chan Event, 2)
	taker := New(Options{Targets: toPeer, Notify: func(e Event) { events <- e }})
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = taker.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		work.Wait()
	})
	taker.Arm(appListener)
	<-events
	return taker
}

var ways = []struct {
	name string
	addr netip.AddrPort
}{{"direct", at(peerIP, 9090)}, {"relayed", appListener.Addr}}

// BenchmarkRelayThroughput sends from the peer to the client; client, relay and peer share the machine.
func BenchmarkRelayThroughput(b *testing.B) {
	const piece = 4 << 20
	benchRelay(b, func(c *net.TCPConn) {
		out := make([]byte, 256<<10)
		for {
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	})
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(way.addr))
			if err != nil {
				b.Fatal(err)
			}
			defer reset(c)
			in := make([]byte, 256<<10)
			b.SetBytes(piece)
			for b.Loop() {
				for n := 0; n < piece; {
					m, err := c.Read(in)
					if err != nil {
						b.Fatal(err)
					}
					n += m
				}
			}
		})
	}
}

// BenchmarkRelayLatency asks in turns directly and through the relay, on kept connections and on new ones.
// Target: 100 µs added at the median.
func BenchmarkRelayLatency(b *testing.B) {
	benchRelay(b, echo)
	b.Run("kept", func(b *testing.B) {
		var conns []*net.TCPConn
		for _, way := range ways {
			c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(way.addr))
			if err != nil {
				b.Fatal(err)
			}
			defer reset(c)
			conns = append(conns, c)
		}
		compare(b, func(i int) {
			if err := exchange(conns[i]); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("new", func(b *testing.B) {
		compare(b, func(i int) {
			if err := visit(ways[i].addr); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// compare calls do for each of the ways in turns, and reports what the second adds to the first.
func compare(b *testing.B, do func(way int)) {
	var took [2][]time.Duration
	for b.Loop() {
		for i := range took {
			start := time.Now()
			do(i)
			took[i] = append(took[i], time.Since(start))
		}
	}
	direct := reportQuantiles(b, ways[0].name+"-", took[0])
	relayed := reportQuantiles(b, ways[1].name+"-", took[1])
	b.ReportMetric(float64((relayed-direct).Nanoseconds())/1e3, "added-p50-µs")
}

func exchange(c *net.TCPConn) error {
	var b [64]byte // it begins no HTTP request
	if _, err := c.Write(b[:]); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b[:])
	return err
}

// visit makes a connection for one exchange.
func visit(to netip.AddrPort) error {
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	defer reset(c) // leaves no TIME_WAIT behind
	return exchange(c)
}

// BenchmarkConnection counts what a connection allocates in this process: client and peer directly, and the relay too.
func BenchmarkConnection(b *testing.B) {
	taker := benchRelay(b, echo)
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := visit(way.addr); err != nil {
					b.Fatal(err)
				}
				for taker.Stats().Open > 0 {
					runtime.Gosched()
				}
			}
		})
	}
}
