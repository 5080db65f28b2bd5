package sockdiag_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/netns/netnstest"
	"lameduck/netns/sockdiag"
)

const appEnv = "SOCKDIAG_TEST_APP"

// app is an application that dies at once, with all its connections: it greets each connection on the listener that it
// inherits, and keeps it, until it is killed or its input ends.
func app() int {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return 1
		}
		if _, err := conn.Write([]byte{'.'}); err != nil {
			return 1
		}
		defer conn.Close() // and not before
	}
}

// startApp hands the listener over to an app.
func startApp(t *testing.T, listener *net.TCPListener) *exec.Cmd {
	t.Helper()
	file, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), appEnv+"=1")
	cmd.ExtraFiles = []*os.File{file}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	file.Close()
	listener.Close()
	return cmd
}

// connections is 10,000, or what the limit of open files allows.
func connections(t testing.TB) int {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(min(10_000, limit.Cur-100))
}

func TestC19OverflowIsToldOnceADumpTellsAll(t *testing.T) {
	netnstest.RunUnprivileged(t, nil, func(t *testing.T) {
		survivor, dying := listen(t, "127.0.0.1:0"), listen(t, "[::]:0")
		ports := []uint16{portOf(survivor), portOf(dying)}
		_, lastServer := connect(t, survivor, "127.0.0.1")
		connect(t, survivor, "127.0.0.1")
		application := startApp(t, dying)
		count := connections(t)
		for range count {
			client := dial(t, dying, "127.0.0.1")
			client.SetReadDeadline(time.Now().Add(watchdog))
			if _, err := client.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		// A second watcher, which is read at once, tells when the first one must have been overrun: both are told of a
		// death in the same call of the kernel.
		filter := func(w *sockdiag.Watcher) error { return w.FilterPorts(ports) }
		oracle := watch(t, filter)
		watcher, err := sockdiag.Watch()
		if err != nil {
			t.Fatal(err)
		}
		if err := sockdiag.ShrinkBuffer(watcher); err != nil {
			t.Fatal(err)
		}
		if err := filter(watcher); err != nil {
			t.Fatal(err)
		}
		application.Process.Kill()
		application.Wait()
		for heard := 0; heard < count/2; heard++ {
			if next(t, oracle).Lost {
				break
			}
		}

		events := run(t, watcher)
		told := 0
		for !next(t, events).Lost {
			told++
		}
		dumper, query := open(t), sockdiag.Query{Ports: ports, States: sockdiag.Of(sockdiag.Established, sockdiag.Listen)}
		left := dump(t, dumper, query)
		t.Logf("%d connections died, %d events were told before the loss was", count, told)
		if told >= count || told == 0 {
			t.Errorf("%d of %d events told", told, count)
		}
		if len(left) != 3 || slices.ContainsFunc(left, func(s sockdiag.Socket) bool { return s.Local.Port() != ports[0] }) {
			t.Errorf("%d sockets left, want the surviving listener and its two connections: %+v", len(left), left)
		}
		lastServer.Close()
		survivor.Close()
		// The kernel may still be telling the rest of the deaths, so this one is told, or it is lost and that is told.
		for {
			e := next(t, events)
			if e.Socket.Local.Port() == ports[0] {
				break
			}
			if e.Lost {
				if left := dump(t, dumper, query); len(left) != 1 {
					t.Errorf("%d sockets left, want one connection: %+v", len(left), left)
				}
				break
			}
		}
	})
}
