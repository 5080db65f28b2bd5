package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lameduck/drain"
	"lameduck/drain/kube"
	"lameduck/netns/takeover"
)

// options is what run was told, checked.
type options struct {
	adminAddress string
	// adminCert and adminKey are paths; both empty: no TLS.
	adminCert, adminKey string
	// appHealth is the URL that tells the application's health; empty: its ports listen.
	appHealth string
	// netns is the path of another network namespace; empty for the own one.
	netns string
	// drain is complete but for what only the namespace can tell.
	drain drain.Config
	// takeover has the targets and health paths. It has no target where the kernel is to refuse.
	takeover takeover.Options
	// kube has the query and the Services.
	kube kube.Options
	// notes are what is odd in the options, but no error: they belong into the log.
	notes []string

	afterApp string
	given    map[string]bool // flags that were given, by name
}

// errHelp tells that help was asked for.
var errHelp = pflag.ErrHelp

// parseOptions reads the flags, then the environment for those that are not given, then the defaults.
// The error names each unusable flag, its value and the fix.
func parseOptions(args, env []string) (options, error) {
	o := options{given: make(map[string]bool)}
	table := flags()
	line, rest, err := parseLine(table, args)
	switch {
	case err != nil:
		return o, err
	case len(rest) > 0:
		return o, fmt.Errorf("run takes flags only, not %q", rest[0])
	}
	variables, notes := variables(table, env)
	o.notes = notes
	var failed []error
	for _, f := range table {
		failed = append(failed, o.apply(f, line[f.name], variables))
	}
	if err := errors.Join(failed...); err != nil {
		return o, err
	}
	return o, o.check()
}

// parseLine parses the command line and returns what was given for each flag, and the arguments that are no flags.
func parseLine(table []flag, args []string) (map[string][]string, []string, error) {
	set := pflag.NewFlagSet("lameduck", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	given := make(map[string][]string)
	for _, f := range table {
		added := set.VarPF(&collected{flag: f, given: given}, f.name, f.short, "")
		if f.kind == "" {
			added.NoOptDefVal = "true"
		}
	}
	err := set.Parse(args)
	if err != nil && !errors.Is(err, errHelp) {
		err = fmt.Errorf("%w; `lameduck help` lists the flags", err)
	}
	return given, set.Args(), err
}

// collected is a pflag.Value that keeps what is given, to be judged later together with the environment.
type collected struct {
	flag  flag
	given map[string][]string
}

func (c *collected) String() string { return "" }
func (c *collected) Type() string   { return c.flag.kind }
func (c *collected) Set(value string) error {
	if !c.flag.repeatable {
		c.given[c.flag.name] = nil // the last one counts
	}
	c.given[c.flag.name] = append(c.given[c.flag.name], value)
	return nil
}

// apply sets one flag from the command line, else from the environment, else from its default.
func (o *options) apply(f flag, line []string, variables map[string]string) error {
	origin := "--" + f.name
	switch value := variables[f.variable()]; {
	case len(line) > 0:
		o.given[f.name] = true
	case value != "":
		o.given[f.name] = true
		origin, line = f.variable()+" (--"+f.name+")", []string{value}
	case f.name == "node-ip" && variables["NODE_IP"] != "":
		origin, line = "NODE_IP (--node-ip)", []string{variables["NODE_IP"]}
	case f.value != "":
		line = []string{f.value}
	}
	for _, given := range line {
		for _, value := range f.values(given) {
			if err := f.set(o, value); err != nil {
				return fmt.Errorf("%s %q: %w", origin, value, err)
			}
		}
	}
	return nil
}

// variables picks lameduck's variables from the environment, and notes those that no flag has.
func variables(table []flag, env []string) (values map[string]string, notes []string) {
	values = make(map[string]string)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "NODE_IP":
		case !strings.HasPrefix(name, "LAMEDUCK_") || isServiceLink(name, value):
			continue
		case !slices.ContainsFunc(table, func(f flag) bool { return f.variable() == name }):
			notes = append(notes, name+" is the variable of no flag, and is ignored")
			continue
		}
		values[name] = value
	}
	return values, notes
}

// isServiceLink tells a variable that the kubelet makes of a Service whose name begins with "lameduck"
// (kubernetes.io/docs/concepts/services-networking/service, "environment variables"). LAMEDUCK_PORT is
// tcp://10.0.0.11:8420 then, which must not keep the sidecar from starting.
func isServiceLink(name, value string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") || strings.Contains(name, "_PORT_") ||
		strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

// check judges flags against each other.
func (o *options) check() error {
	if !o.given["shutdown-reserve"] {
		// A pod with a short grace period must not fail for a default that nobody wrote.
		o.drain.Reserve = min(o.drain.Reserve, o.drain.GracePeriod/2)
	}
	if err := errors.Join(o.checkTimes(), o.checkCertificate(), o.checkRelay(), o.checkSources()); err != nil {
		return err
	}
	o.note()
	return nil
}

func (o *options) checkTimes() error {
	if most := o.drain.GracePeriod - time.Second; o.drain.Reserve > most {
		return fmt.Errorf("--shutdown-reserve %v: nothing of --grace-period %v is left to hold; write %v at the most, or raise --grace-period with the pod's terminationGracePeriodSeconds",
			o.drain.Reserve, o.drain.GracePeriod, most)
	}
	return nil
}

func (o *options) checkCertificate() error {
	switch {
	case o.adminCert != "" && o.adminKey == "":
		return fmt.Errorf("--admin-cert %q: its key is missing; add --admin-key, or leave both out", o.adminCert)
	case o.adminCert == "" && o.adminKey != "":
		return fmt.Errorf("--admin-key %q: its certificate is missing; add --admin-cert, or leave both out", o.adminKey)
	}
	return nil
}

func (o *options) checkRelay() error {
	targets := o.takeover.Targets
	switch {
	case o.afterApp == "relay" && len(targets) == 0:
		return errors.New("--after-app \"relay\": there is nobody to relay to; add --relay-to host:port, or leave it out")
	case o.afterApp == "reset" && len(targets) > 0:
		return fmt.Errorf("--after-app \"reset\": then --relay-to %q does nothing; leave one of them out", targets[0].Host)
	}
	for _, t := range targets {
		if t.Port != 0 && len(o.drain.Ports) > 0 && !slices.Contains(o.drain.Ports, t.Port) {
			return fmt.Errorf("--relay-to \"%d=%s\": %d is none of the ports of --port; add --port %d", t.Port, t.Host, t.Port, t.Port)
		}
	}
	return nil
}

func (o *options) checkSources() error {
	for _, own := range o.drain.OwnPorts {
		if slices.Contains(o.drain.Ports, own) {
			return fmt.Errorf("--port \"%d\": that is lameduck's own port; leave it out, or move --admin-address", own)
		}
	}
	if !o.drain.TrustChecks {
		return nil
	}
	if len(o.drain.Envoy) == 0 && !o.drain.EnvoySlices {
		return errors.New("--trust-checks \"true\": which Envoys have to be told is not known; add --envoy for each of them, or --envoy-slices")
	}
	for _, prefix := range o.drain.Envoy {
		if !prefix.IsSingleIP() {
			return fmt.Errorf("--trust-checks \"true\": which Envoys of %v have to be told is not known; give --envoy single addresses", prefix)
		}
	}
	return nil
}

// note says what is odd, and still works.
func (o *options) note() {
	longest := o.drain.GracePeriod - o.drain.Reserve
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"quiet", o.drain.Quiet}, {"min", o.drain.Min}} {
		if f.value > longest {
			o.notes = append(o.notes, fmt.Sprintf("--%s %v is longer than a hold can be: it ends after %v (--grace-period %v less --shutdown-reserve %v)",
				f.name, f.value, longest, o.drain.GracePeriod, o.drain.Reserve))
		}
	}
	if len(o.takeover.HealthPaths) > 0 && len(o.takeover.Targets) == 0 {
		o.notes = append(o.notes, "--health-path does nothing without --relay-to: no port is taken")
	}
}
