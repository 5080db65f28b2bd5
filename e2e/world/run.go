package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Run builds the world of a Spec, lets it happen, and returns what it showed. log hears what the node says. When Run
// returns, or ctx ends, or this process dies, nothing of the world is left.
func (t Tools) Run(ctx context.Context, spec Spec, log io.Writer) (Result, error) {
	type ended struct {
		result Result
		err    error
	}
	done := make(chan ended, 1)
	go func() {
		// Pdeathsig fires when the thread that started the child ends: hold it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		result, err := t.run(ctx, spec, log)
		done <- ended{result, err}
	}()
	e := <-done
	if e.err != nil {
		return e.result, fmt.Errorf("world %q: %w", spec.Name, e.err)
	}
	return e.result, nil
}

func (t Tools) run(ctx context.Context, spec Spec, log io.Writer) (Result, error) {
	cmd := exec.CommandContext(ctx, t.World, "node")
	cmd.SysProcAttr = isolation(os.Getuid(), os.Getgid())
	cmd.Stderr = log
	in, err := cmd.StdinPipe() // held open to the end: the node ends when it closes
	if err != nil {
		return Result{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Result{}, err
	}
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("start the node in namespaces of its own (needs root, or user namespaces): %w", err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	order := Order{Spec: spec.withDefaults(), Envoy: t.Envoy, Lameduck: t.Lameduck, Dir: t.Dir}
	if err := json.NewEncoder(in).Encode(order); err != nil {
		return Result{}, err
	}
	var reply Reply
	if err := json.NewDecoder(out).Decode(&reply); err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return Result{}, fmt.Errorf("the node ended without an answer: %w", err)
	}
	if reply.Error != "" {
		return reply.Result, errors.New(reply.Error)
	}
	return reply.Result, nil
}

// isolation starts a process as PID 1 of PID, mount and network namespaces of its own, deaf to the terminal, and dying
// with this one. Who is not root becomes root in a user namespace.
func isolation(uid, gid int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
		Setsid:     true,
	}
	if uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	return attr
}
