package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/e2e/world"
)

// sidecar is the process of a pod's lameduck.
func (n *node) sidecar(pod int) *process { return n.pods[pod].container(sidecarName).current() }

// drain runs `lameduck drain` in a pod.
func (n *node) drain(pod int) error {
	p := n.pods[pod]
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return n.kubelet.exec(ctx, p, p.container(sidecarName), []string{"drain"})
}

func (n *node) terminate(pod int) error { return n.sidecar(pod).signal(unix.SIGTERM) }

// freeze stops a pod's lameduck for a time.
func (n *node) freeze(f world.Freeze) error {
	p := n.sidecar(f.Pod)
	if err := p.signal(unix.SIGSTOP); err != nil {
		return err
	}
	<-time.After(f.For)
	return p.signal(unix.SIGCONT)
}

// measure reads what a pod's lameduck has used so far.
func (n *node) measure(pod int) error {
	at := time.Now()
	usage, err := usageOf(n.sidecar(pod).cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("measure pod-%d: %w", pod, err)
	}
	usage.Pod = pod
	n.record(func(start time.Time, r *world.Result) {
		usage.At = at.Sub(start)
		r.Usages = append(r.Usages, usage)
	})
	return nil
}

// usageOf reads a process's threads and memory from /proc.
func usageOf(pid int) (world.Usage, error) {
	var u world.Usage
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) == 0 {
		return u, fmt.Errorf("no process %d: %w", pid, err)
	}
	for _, task := range tasks {
		// schedstat is exact; the times in stat are guessed from the clock's ticks, and a sleeper is seldom seen at one.
		cpu, err := number(task+"/schedstat", "")
		if err != nil {
			return u, err
		}
		switches, err := number(task+"/status", "voluntary_ctxt_switches:")
		if err != nil {
			return u, err
		}
		u.CPU += time.Duration(cpu)
		u.Switches += int(switches)
	}
	status := fmt.Sprintf("/proc/%d/status", pid)
	if u.Anonymous, err = number(status, "RssAnon:"); err != nil {
		return u, err
	}
	u.File, err = number(status, "RssFile:")
	u.Anonymous, u.File = u.Anonymous<<10, u.File<<10 // from kB
	return u, err
}

// number is the first number of the line of a file that begins with name.
func number(path, name string) (int64, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				return strconv.ParseInt(fields[0], 10, 64)
			}
		}
	}
	return 0, fmt.Errorf("no %q in %s", name, path)
}

// trace counts the system calls of a pod's lameduck.
func (n *node) trace(t world.Trace) error {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return err
	}
	table := filepath.Join(n.dir, "strace")
	var said bytes.Buffer
	cmd := exec.Command(strace, "-f", "-c", "-U", "calls,name", "-o", table, "-p", strconv.Itoa(n.sidecar(t.Pod).cmd.Process.Pid))
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("strace: %w", err)
	}
	<-time.After(t.For)
	_ = cmd.Process.Signal(unix.SIGINT) // it leaves its tracee alone, and writes the table
	_ = cmd.Wait()
	content, err := os.ReadFile(table)
	if err == nil && !bytes.Contains(said.Bytes(), []byte("attached")) {
		err = errors.New("it did not attach")
	}
	if err != nil {
		return fmt.Errorf("strace: %w: %s", err, said.Bytes())
	}
	calls := callsIn(content)
	n.record(func(_ time.Time, r *world.Result) { r.Calls = calls })
	return nil
}

// callsIn reads strace's table of calls and names; an empty one means no call.
func callsIn(table []byte) map[string]int {
	calls := make(map[string]int)
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 || fields[1] == "total" {
			continue
		}
		if n, err := strconv.Atoi(fields[0]); err == nil {
			calls[fields[1]] = n
		}
	}
	return calls
}
