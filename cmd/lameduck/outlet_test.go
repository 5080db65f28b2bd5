package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/netns/netnstest"
)

// runEnv makes the test's own program lameduck.
const runEnv = "LAMEDUCK_TEST_RUN"

// A log that nobody reads, or nobody reads any more, neither ends the sidecar nor stops its drain, whichever signal ends it.
func TestLogWithoutAReaderStopsNothing(t *testing.T) {
	for name, outlet := range map[string]func(*testing.T) *os.File{"broken": brokenPipe, "full": fullPipe} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP} {
			t.Run(name+"/"+signal.String(), func(t *testing.T) {
				namespace := netnstest.New(t)
				cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "--grace-period=20s")
				cmd.Env = append(os.Environ(), runEnv+"=1")
				pipe := outlet(t)
				cmd.Stdout, cmd.Stderr = pipe, pipe
				namespace.Do(t, func() {
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
				})
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				awaitSidecar(t, namespace)
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-ended:
					if err != nil {
						t.Errorf("ended by %v", err)
					}
				case <-time.After(10 * time.Second):
					t.Error("still there after 10 s, with nothing to wait for")
					_ = cmd.Process.Kill()
					t.Error(<-ended)
				}
			})
		}
	}
}

// awaitSidecar waits until a sidecar answers in the namespace.
func awaitSidecar(t *testing.T, namespace *netnstest.Namespace) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		code := exitFailed
		namespace.Do(t, func() { code = run(context.Background(), []string{"status"}, nil, io.Discard, io.Discard) })
		if code == exitOK {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatal("no sidecar")
}

func brokenPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	_ = r.Close()
	return w
}

func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(ends[0]), "reader"), os.NewFile(uintptr(ends[1]), "writer")
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	return w
}

// gate is a reader that takes nothing until it is opened.
type gate struct {
	open chan struct{}
	bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	return g.Buffer.Write(b)
}

func TestLostLinesAreCounted(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	o := newOutlet(g)
	for range outletLines + 100 {
		if _, err := o.Write([]byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	close(g.open)
	o.shut()
	<-o.done
	written := strings.Count(g.String(), "line\n")
	if written < outletLines || written > outletLines+1 { // one more may be in the writer's hands
		t.Errorf("%d lines of %d places", written, outletLines)
	}
	if lost := outletLines + 100 - written; strings.Count(g.String(), " lines were lost here") != 1 ||
		!strings.Contains(g.String(), fmt.Sprintf("lameduck: %d lines were lost here", lost)) {
		t.Errorf("%d were lost; said: %q", lost, g.String()[strings.Index(g.String(), "lameduck"):])
	}
}

// Three that nobody reads take no longer at the exit than one, and those that are read lose nothing.
func TestExitWaitsOnceForAllReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var read bytes.Buffer
		a, b, c := newOutlet(&gate{open: open}), newOutlet(&gate{open: open}), newOutlet(&read)
		for _, o := range []*outlet{a, b, c} {
			_, _ = o.Write([]byte("words\n"))
		}
		start := time.Now()
		closeOutlets(a, b, c)
		if took := time.Since(start); took > outletPatience {
			t.Errorf("the exit took %v", took)
		}
		synctest.Wait()
		if read.String() != "words\n" {
			t.Errorf("read %q", &read)
		}
		close(open)
	})
}

func TestTerminationMessageIsLeftInAFileAndNoPipeStopsIt(t *testing.T) {
	dir := t.TempDir()
	plain, pipe := filepath.Join(dir, "plain"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(plain, []byte("what stood there, and was longer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := leave(plain, []byte("words\n")); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(plain); err != nil || string(got) != "words\n" {
		t.Errorf("%q %v", got, err)
	}
	if err := leave(filepath.Join(dir, "none"), nil); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := leave(pipe, []byte("words\n")); !errors.Is(err, unix.ENXIO) {
		t.Errorf("a pipe without a reader: %v", err)
	}
}
