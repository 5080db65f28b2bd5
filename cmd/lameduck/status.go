package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"lameduck/drain"
	"lameduck/drain/admin"
)

// runStatus shows the state of the sidecar in this pod: a table, or JSON with -o json.
func runStatus(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	set := pflag.NewFlagSet("status", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	output := set.StringP("output", "o", "", "")
	switch err := set.Parse(args); {
	case errors.Is(err, errHelp):
		return help(stdout)
	case err != nil:
		fmt.Fprintf(stderr, "lameduck: status: %v\n", err)
		return exitUsage
	case *output != "" && *output != "json":
		fmt.Fprintf(stderr, "lameduck: status: --output %q: write json, or leave it out for a table\n", *output)
		return exitUsage
	case set.NArg() > 0:
		fmt.Fprintf(stderr, "lameduck: status takes no argument, not %q\n", set.Arg(0))
		return exitUsage
	}
	status, err := admin.FetchStatus(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "lameduck: %v\n", err)
		return exitFailed
	}
	if *output == "json" {
		err = writeJSON(stdout, status)
	} else {
		err = writeTable(stdout, status)
	}
	if err != nil {
		fmt.Fprintf(stderr, "lameduck: status: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func writeJSON(w io.Writer, status drain.Status) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(status)
}

// writeTable writes the status for a person: what goes on first, then the ports, the ledger and the relay.
func writeTable(w io.Writer, s drain.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "phase\t%s\n", s.Phase)
	fmt.Fprintf(t, "waits for\t%s\n", dash(s.WaitsFor))
	if s.Trigger != "" {
		fmt.Fprintf(t, "trigger\t%s, %s ago\n", s.Trigger, seconds(s.ElapsedSeconds))
		fmt.Fprintf(t, "last activity\t%s after the trigger\n", seconds(s.LagSeconds))
	}
	fmt.Fprintf(t, "SIGTERM\t%s\n", map[bool]string{true: "has come", false: "has not come"}[s.Terminated])
	fmt.Fprintf(t, "holds\t%s\n", holds(s))
	fmt.Fprintf(t, "connections\t%d open, %d owed an answer, %d refused\n", s.Connections, s.Owed, s.Refused)
	if r := s.Relay; r.PeersKnown > 0 || r.Relayed > 0 {
		fmt.Fprintf(t, "relay\t%d relayed, %d open, %d failed, %d looped, %d checks failed; %d of %d peers answer\n",
			r.Relayed, r.Open, r.Failed, r.Looped, r.Checks, r.PeersAnswer, r.PeersKnown)
	}
	for _, d := range s.Degraded {
		fmt.Fprintf(t, "degraded\t%s\n", d)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return errors.Join(writePorts(w, s.Ports), writeLedger(w, s.Sources))
}

func holds(s drain.Status) string {
	if s.Released != "" {
		return fmt.Sprintf("%d waiting; released: %s", s.Holds, s.Released)
	}
	return fmt.Sprintf("%d waiting", s.Holds)
}

func writePorts(w io.Writer, ports []drain.Port) error {
	if len(ports) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nPORT\tSTATE")
	for _, p := range ports {
		fmt.Fprintf(t, "%s\t%s\n", p.Address, p.State)
	}
	return t.Flush()
}

func writeLedger(w io.Writer, sources []drain.Source) error {
	if len(sources) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nSOURCE\tLAST ACTIVITY\tNEW CONNECTIONS\tMESSAGES\tOWED\tLAST CHECK\tTOLD\tREMARK")
	for _, s := range sources {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\n", s.Address, activity(s), s.Connections,
			s.Messages, s.Owed, lastCheck(s), told(s), dash(cmp.Or(s.Ignored, s.Remark)))
	}
	return t.Flush()
}

func lastCheck(s drain.Source) string {
	if s.LastAnswer == "" {
		return "–"
	}
	return seconds(s.LastCheckSeconds) + " ago: " + s.LastAnswer
}

func told(s drain.Source) string {
	switch {
	case s.Told:
		return seconds(s.ToldSeconds) + " ago"
	case s.Untold > 0:
		return fmt.Sprintf("no: %d left", s.Untold)
	}
	return "no"
}

// seconds writes a time with a tenth of a second.
func seconds(s float64) string { return fmt.Sprintf("%.1fs", s) }

func dash(s string) string { return cmp.Or(s, "–") }

// activity says when a source's last activity was; of one that does not count there is none.
func activity(s drain.Source) string {
	if s.LastActivitySeconds == 0 {
		return "–"
	}
	return seconds(s.LastActivitySeconds) + " ago"
}
