package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lameduck/netns/netnstest"
)

// actEnv makes the test's own program lameduck itself.
const actEnv = "LAMEDUCK_TEST_ACT"

// container is a shell with a mount namespace of its own, as a container has one, in which a sidecar may run: each line that
// it is sent is a command of lameduck's.
type container struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser

	mu      sync.Mutex
	text    string
	changed chan struct{}
	ended   chan struct{}
}

const shell = `set -eu
mount --make-rprivate /
if [ -n "${SECRETS:-}" ]; then
	mount -t tmpfs none /run
	mkdir -p /run/secrets
	cp -r "$SECRETS" /run/secrets/lameduck
fi
sidecar=
if [ $# -gt 0 ]; then
	"$0" run "$@" &
	sidecar=$!
fi
while read -r command; do
	case $command in
	term) kill -TERM $sidecar; wait $sidecar && echo "exit 0" ;;
	*) "$0" $command || echo "exit $?" ;;
	esac
done
[ -z "$sidecar" ] || kill -KILL $sidecar 2>/dev/null || :`

// startContainer starts one in a network namespace; without flags no sidecar runs in it.
func startContainer(t *testing.T, n *netnstest.Namespace, env []string, flags ...string) *container {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &container{t: t, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	c.cmd = exec.Command("sh", append([]string{"-c", shell, self}, flags...)...)
	c.cmd.Env = append(append(os.Environ(), actEnv+"=1"), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stdout, c.cmd.Stderr = writer, writer
	n.Do(t, func() { err = c.cmd.Start() })
	writer.Close()
	if err != nil {
		t.Fatal(err)
	}
	go c.read(reader)
	t.Cleanup(func() {
		c.stdin.Close()
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("container: %v", err)
		}
		<-c.ended
	})
	return c
}

func (c *container) read(from io.ReadCloser) {
	defer close(c.ended)
	defer from.Close()
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		c.mu.Lock()
		c.text += lines.Text() + "\n"
		c.mu.Unlock()
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
}

func (c *container) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text
}

func (c *container) send(command string) {
	c.t.Helper()
	if _, err := io.WriteString(c.stdin, command+"\n"); err != nil {
		c.t.Fatalf("%s: %v; it said:\n%s", command, err, c.said())
	}
}

// await waits until the container has said something since a command was sent.
func (c *container) await(part string) {
	c.t.Helper()
	watchdog := time.After(30 * time.Second)
	for !strings.Contains(c.said(), part) {
		select {
		case <-c.changed:
		case <-watchdog:
			c.t.Fatalf("it did not say %q:\n%s", part, c.said())
		}
	}
}

// serving waits until the sidecar serves its control socket, which it opens after its port.
func (c *container) serving() {
	c.t.Helper()
	c.await("phase=serving")
	for watchdog := time.Now().Add(30 * time.Second); ; {
		before := len(c.said())
		c.send("status")
		for len(c.said()) == before {
			<-c.changed
		}
		if strings.Contains(c.said()[before:], "phase") {
			return
		}
		if time.Now().After(watchdog) {
			c.t.Fatalf("no control socket:\n%s", c.said())
		}
	}
}

// Two pods in the node's network share the abstract names. Each sidecar's hook starts its own drain, and no other container
// starts any.
func TestSidecarsInTheNodesNetworkKeepTheirDrainsApart(t *testing.T) {
	n := netnstest.New(t)
	node := []string{"NODE_IP=127.0.0.1"}
	first := startContainer(t, n, node, "--admin-address=:18421")
	second := startContainer(t, n, node, "--admin-address=:18422")
	first.serving()
	second.serving()
	second.send("drain")
	second.await("phase=draining")
	stranger := startContainer(t, n, node)
	stranger.send("drain")
	stranger.await("no lameduck serves @lameduck/")
	if strings.Contains(first.said(), "phase=draining") {
		t.Errorf("the first drains too:\n%s", first.said())
	}
	first.send("drain")
	first.await("phase=draining")
}

// The contract for a pod of its own: every container reaches the sidecar by @lameduck.
func TestEveryContainerOfThePodReachesTheSidecar(t *testing.T) {
	n := netnstest.New(t)
	sidecar := startContainer(t, n, nil, "--admin-address=:18421")
	sidecar.serving()
	other := startContainer(t, n, nil)
	other.send("status")
	other.await("serving")
	other.send("drain")
	sidecar.await("phase=draining")
	// Not told that it is in the node's network, a second one still has its own hook.
	second := startContainer(t, n, nil, "--admin-address=:18422")
	second.serving()
	second.await("another lameduck in this network namespace has the control socket @lameduck")
	second.send("drain")
	second.await("phase=draining")
}
