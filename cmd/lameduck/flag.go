package main

import (
	"errors"
	"strings"
)

// flag is one row of the table from which the command line, the environment, the help and the README's reference come.
type flag struct {
	name string
	// short is a letter that stands for the name, too.
	short string
	kind  string // the word for its value: "duration"; empty for a switch
	// value is the default as one would write it; shown is what the reference says instead where words say it better.
	value, shown string
	meaning      string
	bounds       string // unit and bounds, in words
	repeatable   bool
	set          func(o *options, value string) error
}

// variable is the flag's environment variable.
func (f flag) variable() string {
	return "LAMEDUCK_" + strings.ToUpper(strings.ReplaceAll(f.name, "-", "_"))
}

// values splits what was given. A repeatable flag takes several values at once, with commas between them.
func (f flag) values(given string) []string {
	if !f.repeatable {
		return []string{given}
	}
	return strings.Split(given, ",")
}

// standard is the default as the help and the reference show it.
func (f flag) standard() string {
	if f.shown != "" {
		return f.shown
	}
	return f.value
}

// errLater is the end of a message on what is designed, and not built yet.
var errLater = errors.New("this build of lameduck cannot do that yet")

// flags is the table of run's flags.
func flags() []flag {
	return []flag{
		{name: "admin-address", kind: "host:port", value: ":8420", set: setAdminAddress,
			meaning: "where `/healthz`, `/livez`, `/hold`, `/status`, `/metrics` and `grpc.health.v1.Health` are served: HTTP/1.1 and HTTP/2, cleartext",
			bounds:  "an IP address or nothing before the colon; port 1–65535"},
		{name: "admin-cert", kind: "path", shown: "–", set: setAdminCert,
			meaning: "certificate with its chain: `--admin-address` takes TLS beside cleartext, for Envoy checks over its cluster's transport socket. Read anew when the file has changed",
			bounds:  "PEM; needs `--admin-key`"},
		{name: "admin-key", kind: "path", shown: "–", set: setAdminKey,
			meaning: "its key; read anew likewise", bounds: "PEM; needs `--admin-cert`"},
		{name: "port", kind: "port", shown: "every TCP port that the pod listens on, except lameduck's own and loopback-only ones",
			repeatable: true, set: setPort, meaning: "the application's ports", bounds: "1–65535, not lameduck's own"},
		{name: "envoy", kind: "CIDR", shown: "any remote address", repeatable: true, set: setEnvoy,
			meaning: "addresses that count as Envoy", bounds: "an address, or a network without host bits"},
		{name: "envoy-slices", kind: "namespace/selector", shown: "–", set: setEnvoySlices,
			meaning: "EndpointSlices whose addresses are Envoy's, asked for in a drain only; until they are known any remote address counts", bounds: "a namespace, `/`, a label selector"},
		{name: "node-ip", kind: "addresses", shown: "`$NODE_IP`", set: setNodeIP,
			meaning: "the node's addresses, which the kubelet's probes come from (`status.hostIPs`)", bounds: "comma-separated"},
		{name: "quiet", kind: "duration", value: "5s", set: setQuiet,
			meaning: "quiet window: how long Envoy must have been silent", bounds: "above 0s"},
		{name: "min", kind: "duration", value: "10s", set: setMin,
			meaning: "least time from the trigger to quiet: stands for the propagation lag where there is too little traffic to show it",
			bounds:  "from 0s"},
		{name: "grace-period", kind: "duration", value: "30s", set: setGracePeriod,
			meaning: "the pod's `terminationGracePeriodSeconds`", bounds: "from 2s"},
		{name: "shutdown-reserve", kind: "duration", value: "5s", shown: "5s, at most half the grace period", set: setReserve,
			meaning: "what of the grace period is left to the application's own shutdown", bounds: "above 0s; a second below the grace period at the most"},
		{name: "after-app", kind: "relay|reset", shown: "relay where peers answer, else reset", set: setAfterApp,
			meaning: "what becomes of new connections once the application has gone: passed on to a peer, or refused by the kernel",
			bounds:  "`relay` needs `--relay-to`"},
		{name: "relay-to", kind: "[PORT=]host:port", shown: "–", repeatable: true, set: setRelayTo,
			meaning: "peers: every address that the name resolves to; PORT is the application port they stand in for (all, if left out). Instead of host:port, asked of the API server in a drain only: `service/NAME`, a Service of the own namespace; `auto`, every Service that lists this pod, if its members are interchangeable (no headless one, no StatefulSet)",
			bounds:  "IPv6 addresses in brackets"},
		{name: "new-connections", kind: "serve|reset", value: "serve", set: setNewConnections,
			meaning: "what becomes of new connections while the application still listens in a drain; `reset` is not in this build yet"},
		{name: "health-path", kind: "path", shown: "–", repeatable: true, set: setHealthPath,
			meaning: "further request paths that are health checks, on a taken port, where they bear no `x-request-id`, as Envoy gives to what it forwards. Not for a TCPRoute, nor where request ids are switched off: a user's own request is failed there",
			bounds:  "begins with `/`; no query"},
		{name: "app-health", kind: "URL", shown: "the application's ports are listening", set: setAppHealth,
			meaning: "tells whether the application is well; asked when `/healthz` is asked", bounds: "`http://`, on loopback"},
		{name: "trust-checks", value: "false", set: setTrustChecks,
			meaning: "sources that have been told by a failing health check need no quiet window", bounds: "needs `--envoy`, with single addresses only, or `--envoy-slices`"},
		{name: "observe-only", value: "false", set: setObserveOnly,
			meaning: "watch and report; hold nothing, take nothing over"},
		{name: "netns", kind: "path", shown: "its own", set: setNetns,
			meaning: "another network namespace to act in (a VM, a container without Kubernetes)", bounds: "needs CAP_SYS_ADMIN"},
	}
}
