package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"lameduck/e2e/cluster/node"
	"lameduck/e2e/cluster/part"
)

// kept is what is noted of a cluster that stays. The time of its first process's start tells it from a later process
// of the same number.
type kept struct {
	PID     int
	Started string
	Parts   part.Parts
}

// Keep brings a cluster up for a person to look at, with a version of Envoy Gateway as in Options.
func Keep(ctx context.Context, gateway string, log io.Writer) error {
	c, err := Up(ctx, Options{Stay: true, Gateway: gateway, Log: log})
	if err != nil {
		return err
	}
	if err := c.keep(ctx); err != nil {
		return errors.Join(err, c.Down())
	}
	dir, err := Folder(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(log, "\nThe cluster stays until `make e2e-down`. Its kubectl: %s/kubectl get pods -A\n"+
		"A shell in its node: %s/shell. Its logs: %s/log\n", dir, dir, dir)
	return err
}

// keep notes the cluster, and writes scripts for a person.
func (c *Cluster) keep(ctx context.Context) error {
	dir, err := Folder(ctx)
	if err != nil {
		return err
	}
	started, err := startOf(c.PID)
	if err != nil {
		return err
	}
	text, err := json.Marshal(kept{c.PID, started, c.Parts})
	if err != nil {
		return err
	}
	enter := fmt.Sprintf("#!/bin/sh\nexec nsenter --target %d --mount --net --pid --uts --ipc --wd=/ env %s",
		c.PID, strings.Join(node.Environment(c.Parts.Debs), " "))
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "kubectl"), []byte(enter+" "+c.Parts.Kube+" kubectl \"$@\"\n"), 0o755),
		os.WriteFile(filepath.Join(dir, "shell"), []byte(enter+" sh \"$@\"\n"), 0o755),
		os.WriteFile(filepath.Join(dir, "kept.json"), text, 0o644),
	)
}

// Kept finds the cluster that was kept; nil if there is none.
func Kept(ctx context.Context) (*Cluster, error) {
	dir, err := Folder(ctx)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "kept.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	if started, err := startOf(k.PID); err != nil || started != k.Started {
		return nil, nil
	}
	return &Cluster{Parts: k.Parts, PID: k.PID}, nil
}

// DownKept ends the cluster that was kept, if there is one.
func DownKept(ctx context.Context) error {
	c, err := Kept(ctx)
	if err != nil {
		return err
	}
	if c != nil {
		if err := c.Down(); err != nil {
			return err
		}
	}
	dir, err := Folder(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{"kept.json", "kubectl", "shell"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// startOf is when a process was started, in the kernel's words.
func startOf(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field, in parentheses, may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	return fields[19], nil
}

// Get returns the cluster that is kept, with today's images of lameduck and the application, or brings one up that ends
// with this process. It tells which.
func Get(ctx context.Context, gateway string, log io.Writer) (c *Cluster, isKept bool, err error) {
	if c, err = Kept(ctx); err != nil {
		return nil, false, err
	}
	if c == nil {
		c, err = Up(ctx, Options{Gateway: gateway, Log: log})
		return c, false, err
	}
	_, _ = fmt.Fprintln(log, "using the cluster that `make e2e-up` has brought up")
	dir, err := Folder(ctx)
	if err != nil {
		return nil, false, err
	}
	if c.Parts, err = part.Prepare(ctx, filepath.Dir(filepath.Dir(dir)), dir, gateway, log); err != nil {
		return nil, false, err
	}
	return c, true, c.importImages(ctx, newSteps(log))
}
