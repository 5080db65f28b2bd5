// Package cluster is a real Kubernetes of one node, with Envoy Gateway and Envoy, on this machine: brought up inside
// namespaces that nothing leads out of, and gone without a trace afterwards.
//
// It needs root, cgroup v1, Debian's apt-get, Go and pip. Nothing is installed.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/e2e/cluster/node"
	"lameduck/e2e/cluster/part"
	"lameduck/e2e/world"
)

// Cluster is a cluster that runs.
type Cluster struct {
	Parts part.Parts
	// PID is the node's first process.
	PID int
	// ended is closed when the node has ended; nil for a cluster that this process did not start.
	ended chan struct{}
	// life is what the node lives as long as.
	life io.Closer
	// fleets counts those that were deployed.
	fleets atomic.Int32
}

// Options choose how a cluster is brought up.
type Options struct {
	// Stay lets it outlive this process. Else it ends with it, in whatever way.
	Stay bool
	// Gateway is the version of Envoy Gateway: "1.2", or empty for a recent one.
	Gateway string
	// Log hears of each step.
	Log io.Writer
}

// lock is a name that only one cluster of a machine can have: it ends with the last process that holds it.
const lock = "@lameduck-e2e-cluster"

// Folder is where the parts, the logs and the note of a cluster that stays are.
func Folder(ctx context.Context) (string, error) {
	root, err := world.Repository(ctx)
	return filepath.Join(root, "build", "cluster"), err
}

// Up makes the parts that are missing, and brings a cluster up in which a Gateway waits for routes.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	if err := possible(); err != nil {
		return nil, err
	}
	dir, err := Folder(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := part.Prepare(ctx, filepath.Dir(filepath.Dir(dir)), dir, o.Gateway, o.Log)
	if err != nil {
		return nil, err
	}
	only, err := net.Listen("unix", lock)
	if err != nil {
		return nil, fmt.Errorf("another cluster is up on this machine (make e2e-down ends one that was kept): %w", err)
	}
	defer func() { _ = only.Close() }()
	// Of a node that was killed its cgroups are left.
	if err := node.RemoveCgroups(); err != nil {
		return nil, err
	}
	c := &Cluster{Parts: parts}
	steps := newSteps(o.Log)
	reports, err := c.startNode(o, filepath.Join(dir, "log"), only.(*net.UnixListener))
	if err != nil {
		return nil, err
	}
	if err := c.bringUp(ctx, reports, steps); err != nil {
		return nil, errors.Join(err, c.Failed(), c.Down())
	}
	return c, nil
}

// Failed tells why the node has ended by itself; nil while it has not.
func (c *Cluster) Failed() error {
	if !c.hasEnded(0) {
		return nil
	}
	dir, err := Folder(context.Background())
	if err != nil {
		return err
	}
	said, err := os.ReadFile(filepath.Join(dir, "log", "node.log"))
	return errors.Join(fmt.Errorf("the node has ended: %s", said), err)
}

// possible tells what this machine lacks.
func possible() error {
	if os.Geteuid() != 0 {
		return errors.New("a kubelet needs root: run it as root")
	}
	for _, tool := range []string{"nsenter", "nice", "mount", "umount", "ldd"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("missing on this machine: %w", err)
		}
	}
	return nil
}

func (c *Cluster) startNode(o Options, logs string, only *net.UnixListener) (*json.Decoder, error) {
	held, err := only.File()
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }()
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(logs, "node.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = said.Close() }()
	args := []string{"node", "-kube", c.Parts.Kube, "-debs", c.Parts.Debs, "-logs", logs}
	if o.Stay {
		args = append(args, "-stay")
	}
	cmd := exec.Command(c.Parts.Cluster, args...)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{held}, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: node.Namespaces, Setsid: true}
	if c.life, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the node in namespaces of its own: %w", err)
	}
	c.PID, c.ended = cmd.Process.Pid, make(chan struct{})
	go func() {
		_, _ = cmd.Process.Wait()
		close(c.ended)
	}()
	return json.NewDecoder(out), nil
}

// Down ends the cluster and returns when nothing of it is left.
func (c *Cluster) Down() error {
	if err := unix.Kill(c.PID, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	if c.life != nil {
		_ = c.life.Close()
	}
	if !c.hasEnded(20 * time.Second) {
		_ = unix.Kill(c.PID, unix.SIGKILL)
		if !c.hasEnded(10 * time.Second) {
			return fmt.Errorf("the node, process %d, does not end", c.PID)
		}
	}
	return node.RemoveCgroups()
}

func (c *Cluster) hasEnded(within time.Duration) bool {
	if c.ended != nil {
		select {
		case <-c.ended:
			return true
		default:
		}
		select {
		case <-c.ended:
			return true
		case <-time.After(within):
			return false
		}
	}
	fd, err := unix.PidfdOpen(c.PID, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(within.Milliseconds()))
	return err == nil && n == 1
}

// Command is a command that runs in the node's namespaces, where the parts' programs are on the PATH. It ends with ctx.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	enter := []string{"--target", fmt.Sprint(c.PID), "--mount", "--net", "--pid", "--uts", "--ipc", "--wd=/"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = node.Environment(c.Parts.Debs)
	// Entering a PID namespace takes a child: it ends with its group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	return cmd
}

// Run runs a command in the node with the given standard input, and returns what it prints.
func (c *Cluster) Run(ctx context.Context, in string, args ...string) (string, error) {
	cmd := c.Command(ctx, args...)
	cmd.Stdin = strings.NewReader(in)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// Kubectl runs kubectl as the cluster's administrator.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.Run(ctx, "", append([]string{c.Parts.Kube, "kubectl"}, args...)...)
}

// Apply applies manifests, and takes back what other hands have changed of them.
func (c *Cluster) Apply(ctx context.Context, manifests string, args ...string) error {
	_, err := c.Run(ctx, manifests, append([]string{c.Parts.Kube, "kubectl", "apply", "--server-side", "--force-conflicts", "-f", "-"}, args...)...)
	return err
}
