package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lameduck/drain/admin"
	"lameduck/netns/netnstest"
)

// startLimited starts a sidecar that may have so many files open; it ends with the test.
func startLimited(t *testing.T, namespace *netnstest.Namespace, files int, flags ...string) (pid int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files) // soft and hard
	cmd := exec.Command("sh", append([]string{"-c", script, self}, flags...)...)
	cmd.Env = append(os.Environ(), runEnv+"=1")
	namespace.Do(t, func() {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	awaitSidecar(t, namespace)
	return cmd.Process.Pid
}

// crowd opens n connections in the namespace, each of which sends bytes and stays until the end of the test.
func crowd(t *testing.T, namespace *netnstest.Namespace, n int, network, address, bytes string) {
	t.Helper()
	namespace.Do(t, func() {
		for range n {
			conn, err := net.DialTimeout(network, address, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			_, _ = io.WriteString(conn, bytes)
		}
	})
}

// await waits for a condition that changes without an event that a test could hear.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func openFilesOf(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// However many holds there are, a takeover and its connections have their descriptors.
func TestHoldsLeaveDescriptorsToTheTakeover(t *testing.T) {
	const files = 1024
	pod, peer := netnstest.New(t), netnstest.New(t)
	netnstest.Veth(t, "eth0", pod, peer, netip.MustParsePrefix("10.8.0.1/24"), netip.MustParsePrefix("10.8.0.2/24"))
	app := greet(t, pod, "10.8.0.1:8080", "app")
	greet(t, peer, "10.8.0.2:8080", "peer")
	pid := startLimited(t, pod, files, "--relay-to=10.8.0.2:8080")
	crowd(t, peer, 1400, "tcp", "10.8.0.1:8420", "GET /hold HTTP/1.1\r\nHost: pod\r\n\r\n")
	await(t, "the holds are there", func() bool { return openFilesOf(t, pid) > files/6 })
	code := exitFailed
	pod.Do(t, func() { code = run(context.Background(), []string{"drain"}, nil, io.Discard, t.Output()) })
	if code != exitOK {
		t.Fatal("no drain")
	}
	app.Close()
	await(t, "the port is taken", func() bool { return greeting(t, peer, "10.8.0.1:8080") == "peer" })
	if n := openFilesOf(t, pid); n > files/2 {
		t.Errorf("%d of %d files are open", n, files)
	}
}

// 600 holds and 400 half lines on the control socket do not keep `lameduck drain` out, which gives up after 5 s.
func TestCrowdOnTheControlSocketKeepsNoDrainOut(t *testing.T) {
	namespace := netnstest.New(t)
	startLimited(t, namespace, 4096)
	own, err := admin.OwnName()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{own, admin.ControlName} {
		crowd(t, namespace, 600, "unix", name, "hold\n")
		crowd(t, namespace, 400, "unix", name, "dra")
	}
	var status strings.Builder
	code := exitFailed
	namespace.Do(t, func() {
		if code = run(context.Background(), []string{"drain"}, nil, io.Discard, t.Output()); code == exitOK {
			code = run(context.Background(), []string{"status"}, nil, &status, t.Output())
		}
	})
	if code != exitOK || !strings.Contains(status.String(), "draining") {
		t.Errorf("exit %d, status:\n%s", code, &status)
	}
}

// greet serves a line to each connection.
func greet(t *testing.T, namespace *netnstest.Namespace, address, line string) net.Listener {
	t.Helper()
	var listener net.Listener
	namespace.Do(t, func() {
		var err error
		if listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, line+"\n")
			conn.Close()
		}
	}()
	t.Cleanup(func() { listener.Close() })
	return listener
}

// greeting is the line that a server says first, or nothing.
func greeting(t *testing.T, namespace *netnstest.Namespace, address string) (line string) {
	t.Helper()
	namespace.Do(t, func() {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		line, _ = bufio.NewReader(conn).ReadString('\n')
	})
	return strings.TrimSpace(line)
}
