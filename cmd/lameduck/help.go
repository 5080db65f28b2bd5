package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

const usage = `lameduck makes a pod's death invisible to the clients behind Envoy.

  lameduck [run] [flags]      the sidecar
  lameduck drain              start the drain of the sidecar in this pod, once and for good; returns at once
  lameduck hold               wait until the hold is released, as GET /hold does
  lameduck status [-o json]   phase, what it waits for, the ledger
  lameduck inject [flags]     add the sidecar and the hold hook to the workloads of a YAML stream, or of a ResourceList
  lameduck version

Flags of run. Each is also an environment variable: --quiet is LAMEDUCK_QUIET. Flags that are repeatable
take several values with commas between them, too.
`

// help writes what can be called, and the table of flags.
func help(w io.Writer) int {
	fmt.Fprint(w, usage)
	helpFlags(w, flags())
	fmt.Fprint(w, "\nFlags of inject. They say what a workload gets unless its pods' annotations say otherwise: lameduck/quiet and so on.\n")
	helpFlags(w, injectFlags())
	return exitOK
}

func helpFlags(w io.Writer, table []flag) {
	for _, f := range table {
		fmt.Fprintf(w, "\n  %s%s\n      %s\n", helpName(f), helpKind(f), helpText(f))
	}
}

func helpName(f flag) string {
	if f.short != "" {
		return "-" + f.short + ", --" + f.name
	}
	return "--" + f.name
}

func helpKind(f flag) string {
	switch {
	case f.kind == "":
		return ""
	case f.repeatable:
		return " " + f.kind + " ..."
	}
	return " " + f.kind
}

func helpText(f flag) string {
	text := f.meaning
	if f.bounds != "" {
		text += " (" + f.bounds + ")"
	}
	if standard := f.standard(); standard != "" && standard != "–" {
		text += "; default: " + standard
	}
	return strings.ReplaceAll(text, "`", "")
}

// noFlags judges the arguments of a subcommand that takes none; done tells that there is nothing more to do.
func noFlags(name string, args []string, stdout, stderr io.Writer) (done bool, code int) {
	set := pflag.NewFlagSet(name, pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	switch err := set.Parse(args); {
	case errors.Is(err, errHelp):
		return true, help(stdout)
	case err != nil:
		fmt.Fprintf(stderr, "lameduck: %s: %v\n", name, err)
		return true, exitUsage
	case set.NArg() > 0:
		fmt.Fprintf(stderr, "lameduck: %s takes no argument, not %q\n", name, set.Arg(0))
		return true, exitUsage
	}
	return false, exitOK
}
