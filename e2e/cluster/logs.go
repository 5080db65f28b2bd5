package cluster

import (
	"bufio"
	"context"
	"regexp"
	"sync"
	"time"
)

// Line is what a container of a pod has written, and when containerd received it.
type Line struct {
	At              time.Time
	Container, Text string
}

// Logs are the lines of all containers of a pod, as they come.
type Logs struct {
	mu     sync.Mutex
	lines  []Line
	change chan struct{}
	ended  chan struct{}
}

// FollowLogs follows the logs of a running pod until it ends.
func (c *Cluster) FollowLogs(ctx context.Context, pod string) (*Logs, error) {
	l := &Logs{change: make(chan struct{}), ended: make(chan struct{})}
	cmd := c.Command(ctx, c.Parts.Kube, "kubectl", "logs", "-f", "--all-containers", "--prefix", "--timestamps", "-n", Namespace, pod)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// [pod/NAME/CONTAINER] TIME TEXT
	form := regexp.MustCompile(`^\[pod/[^/]+/([^\]]+)\] (\S+) (.*)$`)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			match := form.FindStringSubmatch(lines.Text())
			if match == nil {
				continue
			}
			if at, err := time.Parse(time.RFC3339Nano, match[2]); err == nil {
				l.add(Line{at, match[1], match[3]})
			}
		}
		_ = cmd.Wait()
		close(l.ended)
	}()
	return l, nil
}

func (l *Logs) add(line Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	close(l.change)
	l.change = make(chan struct{})
}

// All are the lines so far.
func (l *Logs) All() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Line(nil), l.lines...)
}

// Find returns the first line of a container with a text.
func (l *Logs) Find(container, text string) (Line, bool) {
	for _, line := range l.All() {
		if line.Container == container && line.Text == text {
			return line, true
		}
	}
	return Line{}, false
}

// Wait waits for a line, and tells whether it came before the pod's end.
func (l *Logs) Wait(ctx context.Context, container, text string) (Line, bool) {
	for {
		l.mu.Lock()
		change := l.change
		l.mu.Unlock()
		if line, ok := l.Find(container, text); ok {
			return line, true
		}
		select {
		case <-change:
		case <-l.ended:
			return l.Find(container, text)
		case <-ctx.Done():
			return Line{}, false
		}
	}
}

// WaitEnd waits until the logs have ended.
func (l *Logs) WaitEnd(ctx context.Context) {
	select {
	case <-l.ended:
	case <-ctx.Done():
	}
}
