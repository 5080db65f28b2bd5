package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/e2e/world/box"
)

// hook is a preStop hook: one of its fields is set.
type hook struct {
	exec []string      // a command in the container
	http string        // a URL that is asked from the node's side
	wait time.Duration // the kubelet sleeps
}

// container is one of a pod's. Each has a PID namespace of its own, so that the end of its first process is the end
// of all of them.
type container struct {
	name string
	// native containers are sidecars: they start before, and get SIGTERM after, the others.
	native bool
	// args are the program's: of this binary, or, with box set, of the boxed one.
	args    []string
	box     *box.Options
	preStop *hook
	// execDelay is how late an exec hook starts.
	execDelay time.Duration
	env       []string
	log       string

	mu      sync.Mutex
	process *process
}

// process is a started process; exited is closed once it has been waited for.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// start runs the container's program.
func (c *container) start(ns *namespace) error {
	p, err := c.spawn(ns, c.args)
	if err != nil {
		return fmt.Errorf("start container %s: %w", c.name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = p
	return nil
}

// current is the process that the container runs now.
func (c *container) current() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

// spawn starts a process in the container.
func (c *container) spawn(ns *namespace, args []string) (*process, error) {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	if c.box != nil {
		args = append([]string{"box"}, c.box.Args(args...)...)
		if err := userNamespace(attr); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(self, args...)
	cmd.Env = c.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attr
	if err := ns.do(cmd.Start); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// userNamespace maps the box's user into a user namespace of its own, where this process is in one that has no other
// user than root: then nobody could become that user.
func userNamespace(attr *syscall.SysProcAttr) error {
	alone, err := aloneInUserNamespace()
	if err != nil || !alone {
		return err
	}
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: box.UID, HostID: 0, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: box.UID, HostID: 0, Size: 1}}
	// Else exec would take from the box what it needs to build its root.
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	return nil
}

func aloneInUserNamespace() (bool, error) {
	file, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	var inside, outside, size uint64
	if _, err := fmt.Fscan(file, &inside, &outside, &size); err != nil {
		return false, fmt.Errorf("uid_map: %w", err)
	}
	return size <= box.UID, nil
}

// signal sends the container's first process a signal; one that has ended is left alone.
func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// status describes how the process ended; valid once exited is closed.
func (p *process) status() string { return p.cmd.ProcessState.String() }

// self is this program, whatever the working folder and the mounts are.
const self = "/proc/self/exe"

// boxFor returns the options of a box whose files live in dir.
func boxFor(dir, binary, hosts string) (*box.Options, error) {
	o := &box.Options{
		Root: filepath.Join(dir, "root"), Binary: binary,
		TerminationLog: filepath.Join(dir, "termination-log"), Hosts: filepath.Join(dir, "hosts"),
	}
	if err := os.MkdirAll(o.Root, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(o.Hosts, []byte(hosts), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(o.TerminationLog, nil, 0o666); err != nil {
		return nil, err
	}
	return o, os.Chmod(o.TerminationLog, 0o666)
}
