package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"lameduck/netns"
)

// runRun is the sidecar: it checks the flags, enters the namespace and hands over to runSidecar.
func runRun(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	// First of all: a process 1 without a handler loses its SIGTERM, and with it the trigger (man 2 kill, notes).
	// Signals are news for the drain, they cancel nothing: a second one changes nothing.
	signals := make(chan os.Signal, 8)
	// SIGQUIT is the STOPSIGNAL of some images, SIGHUP what a lost terminal sends.
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	defer signal.Stop(signals)
	// A log that nobody reads any more must not end us (a write to a broken pipe on stdout or stderr does by default).
	signal.Ignore(syscall.SIGPIPE)

	o, err := parseOptions(args, env)
	switch {
	case errors.Is(err, errHelp):
		return help(stdout)
	case err != nil:
		fmt.Fprintf(stderr, "lameduck: %s\n", strings.ReplaceAll(err.Error(), "\n", "\nlameduck: "))
		return exitUsage
	}
	if err := enter(o.netns, args, env); err != nil {
		fmt.Fprintf(stderr, "lameduck: --netns %q: %v; it takes CAP_SYS_ADMIN and the path of a network namespace\n", o.netns, err)
		return exitUsage
	}
	return runSidecar(ctx, o, env, signals, stdout, stderr)
}

// enter goes to the network namespace at path, by executing this program anew in it: so every thread is there.
func enter(path string, args, env []string) error {
	if path == "" {
		return nil
	}
	inside, err := netns.Inside(path)
	if err != nil || inside {
		return err
	}
	return netns.EnterAndExec(path, append([]string{os.Args[0], "run"}, args...), env)
}
