// Command lameduck makes a pod's death invisible to the clients behind Envoy. README.md is its manual.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// The exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // unusable flags
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run runs the subcommand that args name and returns the exit status. Without a name it is the sidecar.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	name, rest := "run", args
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, rest = args[0], args[1:]
	}
	switch name {
	case "run":
		return runRun(ctx, rest, env, stdout, stderr)
	case "drain":
		return runDrain(ctx, rest, stdout, stderr)
	case "hold":
		return runHold(ctx, rest, stdout, stderr)
	case "status":
		return runStatus(ctx, rest, stdout, stderr)
	case "inject":
		return runInject(rest, os.Stdin, stdout, stderr)
	case "version":
		return runVersion(rest, stdout, stderr)
	case "help":
		return help(stdout)
	}
	fmt.Fprintf(stderr, "lameduck: unknown command %q: run, drain, hold, status, inject or version; \"lameduck help\" tells more\n", name)
	return exitUsage
}
