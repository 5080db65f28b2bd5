package takeover

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const takerProcess = "LAMEDUCK_TEST_TAKER"

// report is what a takeover in a process of its own says at the begin and at the end.
type report struct {
	Files uint64 // the limit of open files
	Stats Stats
}

// TestTakerProcess is no test: it is the takeover with descriptors of its own that startTaker starts.
func TestTakerProcess(t *testing.T) {
	if os.Getenv(takerProcess) == "" {
		t.Skip("the process of other tests")
	}
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	if _, err := in.ReadString('\n'); err != nil { // the parent has set the limit
		t.Fatal(err)
	}
	holds := make(chan Event, 1<<16)
	taker := New(Options{
		Targets: toPeer, DialTimeout: watchdog, // a busy machine's slowness is no peer's death
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Notify: func(e Event) { holds <- e },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = taker.Run(ctx) })
	if raceDetector {
		// sync.Pool then loses pipes at random, and they are open until they are collected.
		work.Go(func() {
			for tick := time.NewTicker(breath); ctx.Err() == nil; <-tick.C {
				runtime.GC()
			}
		})
	}
	taker.Arm(appListener)
	receive(t, holds)
	_ = out.Encode(report{Files: FileLimit(slog.Default())})
	_, _ = in.ReadString('\n')
	_ = out.Encode(report{Stats: taker.Stats()})
	cancel()
	work.Wait()
}

// taker is a takeover in a process of its own.
type taker struct {
	cmd *exec.Cmd
	in  io.Writer
	out *json.Decoder
	log *lines
}

func startTaker(t *testing.T) *taker {
	t.Helper()
	p := &taker{cmd: exec.Command("/proc/self/exe", "-test.run=^TestTakerProcess$"), log: &lines{changed: make(chan struct{}, 1)}}
	p.cmd.Env = append(os.Environ(), takerProcess+"=1")
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, json.NewDecoder(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if t.Failed() {
			t.Log(p.log)
		}
	})
	return p
}

// step lets the process go on, and returns what it says then.
func (p *taker) step(t *testing.T) (said report) {
	t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		t.Fatal(err)
	}
	if err := p.out.Decode(&said); err != nil {
		t.Fatal(err)
	}
	return said
}

// crowd opens n connections that each send a byte, and stay open after its echo until they are let go.
type crowd struct {
	answered chan struct{}
	leave    chan struct{}
	failed   atomic.Int64
	work     sync.WaitGroup
}

func gather(t *testing.T, n int) *crowd {
	c := &crowd{answered: make(chan struct{}, n), leave: make(chan struct{})}
	for range n {
		client := dialFrom(t, clientIP, appListener.Addr)
		c.work.Go(func() {
			defer client.Close()
			if _, err := client.Write([]byte{0}); err != nil || !firstRead(client, make([]byte, 1)) {
				c.failed.Add(1)
			}
			c.answered <- struct{}{}
			<-c.leave
			if _, err := client.Write([]byte{1}); err != nil || !firstRead(client, make([]byte, 1)) {
				c.failed.Add(1) // it did not go on
			}
		})
	}
	return c
}

const (
	manyConns = 2000
	fewFiles  = 1024
)

func TestOpenFilesAreSharedOutWithinTheLimit(t *testing.T) {
	for limit := uint64(1); limit < 1<<21; limit += 1 + limit/10 {
		const kept = 300
		s := shareOut(limit, kept)
		if used := kept + filesKept + s.probes + s.relays*filesPerRelay; s.relays > 0 && uint64(used) > limit {
			t.Errorf("%d of %d are used: %+v", used, limit, s)
		}
		if s.probes < 1 || s.relays == 0 && limit > kept+filesKept+limit/16+filesPerRelay {
			t.Errorf("of %d: %+v", limit, s)
		}
	}
}

// A port that is taken without descriptors for its connections would be worse than a refusal: they would wait for ever.
func TestNoPortIsTakenWithoutDescriptorsForItsConnections(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		w := run(t, Options{Targets: toPeer, FilesKept: 900}, func(sys *system) {
			sys.files = func(*slog.Logger) uint64 { return fewFiles }
		})
		w.taker.Arm(appListener)
		until(t, "the peer answers", func() bool { return w.taker.Stats().PeersAnswer == 1 })
		w.taker.Kick()
		if !refused(appListener.Addr) {
			t.Error("not refused")
		}
		if w.log.count("no port will be taken: the limit of open files") != 1 {
			t.Errorf("log:\n%s", w.log)
		}
	})
}

// C24, where the hard limit is enough: the soft one is raised to it at the start.
func TestManyConnectionsAreRelayedUnderALowSoftLimit(t *testing.T) {
	inPod(t, func(t *testing.T) {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if shareOut(limit.Max, 0).relays < manyConns {
			t.Skipf("the hard limit of open files, %d, is too low for %d relays", limit.Max, manyConns)
		}
		if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: fewFiles, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		p := startTaker(t)
		if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit.Max, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		serveAt(t, at(peerIP, 9090), echo)
		if said := p.step(t); said.Files < limit.Max-1 { // Go leaves it one below, to tell its own doing from others'
			t.Errorf("limit %d, not %d", said.Files, limit.Max)
		}
		c := gather(t, manyConns)
		for range manyConns {
			receive(t, c.answered)
		}
		if said := p.step(t); said.Stats.Open != manyConns || said.Stats.Failed != 0 {
			t.Errorf("%+v", said.Stats)
		}
		close(c.leave)
		c.work.Wait()
	})
}

// C24, where it is not: connections beyond the limit wait in the backlog, and open ones go on.
func TestConnectionsBeyondTheLimitWaitInTheBacklog(t *testing.T) {
	inPod(t, func(t *testing.T) {
		bound := shareOut(fewFiles, 0).relays
		var open, most atomic.Int64
		serveAt(t, at(peerIP, 9090), func(c *net.TCPConn) {
			b := make([]byte, 1)
			if !firstRead(c, b) {
				return // a probe
			}
			for now := open.Add(1); now > most.Load(); {
				most.Store(now)
			}
			defer open.Add(-1)
			for {
				if _, err := c.Write(b); err != nil || !firstRead(c, b) {
					return
				}
			}
		})
		p := startTaker(t)
		low := unix.Rlimit{Cur: fewFiles, Max: fewFiles}
		if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &low, nil); err != nil {
			t.Fatal(err)
		}
		p.step(t)
		c := gather(t, manyConns)
		for range bound {
			receive(t, c.answered)
		}
		p.log.await(t, "no more connections are accepted until others end")
		if n := len(c.answered); n != 0 {
			t.Errorf("%d connections beyond the limit were answered", n)
		}
		for range manyConns - bound {
			c.leave <- struct{}{} // one goes on, and goes
			receive(t, c.answered)
		}
		close(c.leave)
		c.work.Wait()
		if c.failed.Load() != 0 || most.Load() > int64(bound) {
			t.Errorf("%d failed, %d at once", c.failed.Load(), most.Load())
		}
		if n := p.log.count("no more connections"); n != 1 {
			t.Errorf("said %d times", n)
		}
		if said := p.step(t); said.Stats.Relayed != manyConns || said.Stats.Failed != 0 {
			t.Errorf("%+v", said.Stats)
		}
	})
}
