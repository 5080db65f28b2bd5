package main

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lameduck/drain"
	"lameduck/drain/kube"
	"lameduck/netns/netnstest"
	"lameduck/netns/takeover"
)

func TestNothingGivenMeansTheDefaults(t *testing.T) {
	o, err := parseOptions(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := options{
		adminAddress: ":8420",
		drain: drain.Config{OwnPorts: []uint16{8420}, Quiet: 5 * time.Second, Min: 10 * time.Second,
			GracePeriod: 30 * time.Second, Reserve: 5 * time.Second},
		given: map[string]bool{},
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("got  %+v\nwant %+v", o, want)
	}
}

// samples has for every flag a value other than the default, and what becomes of it.
var samples = map[string]struct {
	value string
	with  []string // other flags that it needs
	got   func(o options) any
	want  any
}{
	"admin-address": {"10.0.0.1:9", nil, func(o options) any { return o.adminAddress }, "10.0.0.1:9"},
	"admin-cert":    {"/tls/tls.crt", []string{"--admin-key=/tls/tls.key"}, func(o options) any { return o.adminCert }, "/tls/tls.crt"},
	"admin-key":     {"/tls/tls.key", []string{"--admin-cert=/tls/tls.crt"}, func(o options) any { return o.adminKey }, "/tls/tls.key"},
	"port":          {"80,443,80", nil, func(o options) any { return o.drain.Ports }, []uint16{80, 443}},
	"envoy": {"10.0.0.0/24,fd00::7,::ffff:1.2.3.4", nil, func(o options) any { return o.drain.Envoy },
		[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::7/128"), netip.MustParsePrefix("1.2.3.4/32")}},
	"envoy-slices": {"gateways/a=b,c in (d, e)", nil, func(o options) any { return o.kube.Envoys }, kube.Query{Namespace: "gateways", Selector: "a=b,c in (d, e)"}},
	"node-ip": {"10.0.0.9, fd00::9", nil, func(o options) any { return o.drain.NodeIPs },
		[]netip.Addr{netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("fd00::9")}},
	"quiet":            {"1500ms", nil, func(o options) any { return o.drain.Quiet }, 1500 * time.Millisecond},
	"min":              {"0s", nil, func(o options) any { return o.drain.Min }, time.Duration(0)},
	"grace-period":     {"2m", nil, func(o options) any { return o.drain.GracePeriod }, 2 * time.Minute},
	"shutdown-reserve": {"29s", nil, func(o options) any { return o.drain.Reserve }, 29 * time.Second},
	"after-app":        {"reset", nil, func(o options) any { return o.afterApp }, "reset"},
	"relay-to": {"8080=app.ns.svc:80,[fd00::1]:81", nil, func(o options) any { return o.takeover.Targets },
		[]takeover.Target{{Port: 8080, Host: "app.ns.svc:80"}, {Host: "[fd00::1]:81"}}},
	"new-connections": {"serve", nil, func(options) any { return nil }, nil},
	"health-path":     {"/a,/b", nil, func(o options) any { return o.takeover.HealthPaths }, []string{"/a", "/b"}},
	"app-health":      {"http://localhost:1/x?y=1", nil, func(o options) any { return o.appHealth }, "http://localhost:1/x?y=1"},
	"trust-checks":    {"true", []string{"--envoy=10.0.0.1"}, func(o options) any { return o.drain.TrustChecks }, true},
	"observe-only":    {"true", nil, func(o options) any { return o.drain.ObserveOnly }, true},
	"netns":           {"/run/netns/x", nil, func(o options) any { return o.netns }, "/run/netns/x"},
}

func TestEveryFlagIsSetByTheLineAndByTheEnvironment(t *testing.T) {
	for _, f := range flags() {
		sample, ok := samples[f.name]
		if !ok {
			t.Errorf("--%s has no sample", f.name)
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			variable := "LAMEDUCK_" + strings.ToUpper(strings.ReplaceAll(f.name, "-", "_"))
			for where, parse := range map[string]func() (options, error){
				"line":        func() (options, error) { return parseOptions(append(sample.with, "--"+f.name+"="+sample.value), nil) },
				"environment": func() (options, error) { return parseOptions(sample.with, []string{variable + "=" + sample.value}) },
			} {
				o, err := parse()
				if err != nil {
					t.Errorf("%s: %v", where, err)
				} else if got := sample.got(o); !reflect.DeepEqual(got, sample.want) {
					t.Errorf("%s: got %v, want %v", where, got, sample.want)
				}
			}
		})
	}
}

func TestServicesArePeersOfTheTargetThatNamesThem(t *testing.T) {
	o, err := parseOptions([]string{"--relay-to=app:80,auto,8081=service/app", "--relay-to=auto"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	targets := []takeover.Target{{Host: "app:80"}, {Host: "auto", Given: true}, {Port: 8081, Host: "service/app", Given: true}}
	services := []kube.Service{{Target: 1}, {Target: 2, Port: 8081, Name: "app"}}
	if !reflect.DeepEqual(o.takeover.Targets, targets) || !reflect.DeepEqual(o.kube.Services, services) {
		t.Errorf("got %+v for %+v", o.kube.Services, o.takeover.Targets)
	}
}

func TestTheLineWinsOverTheEnvironment(t *testing.T) {
	o, err := parseOptions([]string{"--quiet", "2s", "--port=1", "--port=2", "--quiet=3s", "--observe-only"},
		[]string{"LAMEDUCK_QUIET=4s", "LAMEDUCK_PORT=9", "LAMEDUCK_MIN=", "LAMEDUCK_OBSERVE_ONLY=false"})
	if err != nil {
		t.Fatal(err)
	}
	if o.drain.Quiet != 3*time.Second || !reflect.DeepEqual(o.drain.Ports, []uint16{1, 2}) || o.drain.Min != 10*time.Second || !o.drain.ObserveOnly {
		t.Errorf("got %+v", o)
	}
}

func TestNodeIPComesFromItsVariable(t *testing.T) {
	for _, test := range []struct {
		args, env []string
		want      string
	}{
		{nil, []string{"NODE_IP=10.0.0.1"}, "10.0.0.1"},
		{nil, []string{"NODE_IP=10.0.0.1", "LAMEDUCK_NODE_IP=10.0.0.2"}, "10.0.0.2"},
		{[]string{"--node-ip=10.0.0.3"}, []string{"NODE_IP=10.0.0.1", "LAMEDUCK_NODE_IP=10.0.0.2"}, "10.0.0.3"},
	} {
		o, err := parseOptions(test.args, test.env)
		if err != nil || len(o.drain.NodeIPs) != 1 || o.drain.NodeIPs[0].String() != test.want {
			t.Errorf("%v %v: got %v, %v", test.args, test.env, o.drain.NodeIPs, err)
		}
	}
}

func TestAdviceOnTheAdminAddressFitsTheFault(t *testing.T) {
	namespace := netnstest.New(t)
	var taken net.Listener
	namespace.Do(t, func() {
		var err error
		if taken, err = net.Listen("tcp", "127.0.0.1:8420"); err != nil {
			t.Fatal(err)
		}
	})
	defer taken.Close()
	for address, want := range map[string]string{
		"127.0.0.1:8420":   "free the port",
		"203.0.113.1:8420": "leave the host out",
	} {
		var stderr bytes.Buffer
		code := exitOK
		namespace.Do(t, func() { code = run(t.Context(), []string{"--admin-address=" + address}, nil, io.Discard, &stderr) })
		if code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit %d, said %q", address, code, stderr.String())
		}
	}
}

// The downward API gives a zone where the node has one; lameduck would never start on such a node.
func TestZoneOfTheNodesAddressIsLeftOut(t *testing.T) {
	o, err := parseOptions(nil, []string{"NODE_IP=10.0.0.1,fe80::1%eth0"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1")}; !slices.Equal(o.drain.NodeIPs, want) {
		t.Errorf("got %v", o.drain.NodeIPs)
	}
	if len(o.notes) != 1 || !strings.Contains(o.notes[0], "fe80::1%eth0") {
		t.Errorf("noted: %q", o.notes)
	}
}

// Every unusable flag ends with status 2 and a message that names the flag, its value and the fix.
func TestUnusableFlagsNameTheFlagTheValueAndTheFix(t *testing.T) {
	for _, test := range []struct {
		args string
		want string // parts, with | between them
	}{
		{"--admin-address=8420", `--admin-address "8420"|write host:port`},
		{"--admin-address=example.com:8420", `--admin-address "example.com:8420"|IP address`},
		{"--admin-address=:0", `--admin-address ":0"|1 to 65535`},
		{"--admin-cert=/tls.crt", `--admin-cert "/tls.crt"|add --admin-key|leave both out`},
		{"--admin-key=/tls.key", `--admin-key "/tls.key"|add --admin-cert|leave both out`},
		{"--admin-cert= --admin-key=/tls.key", `--admin-cert ""|PEM file`},
		{"--admin-cert=/nonexistent --admin-key=/nowhere", `--admin-cert "/nonexistent"|--admin-key "/nowhere"|no such file|PEM`},
		{"--port=http", `--port "http"|1 to 65535`},
		{"--port=80,,81", `--port ""|1 to 65535`},
		{"--port=65536", `--port "65536"|1 to 65535`},
		{"--port=8420", `--port "8420"|--admin-address`},
		{"--envoy=envoy", `--envoy "envoy"|10.0.0.0/24`},
		{"--envoy=10.0.0.5/24", `--envoy "10.0.0.5/24"|write 10.0.0.0/24|10.0.0.5`},
		{"--envoy=fe80::1%eth0", `--envoy "fe80::1%eth0"|write an address`},
		{"--envoy-slices=x", `--envoy-slices "x"|namespace/label-selector`},
		{"--envoy-slices=ns/", `--envoy-slices "ns/"|namespace/label-selector`},
		{"--envoy-slices=Ns/a=b", `--envoy-slices "Ns/a=b"|namespace/label-selector`},
		{"--trust-checks --envoy=10.0.0.0/8 --envoy-slices=ns/a=b", `--trust-checks|10.0.0.0/8|single addresses`},
		{"--node-ip=node-1", `--node-ip "node-1"|IP addresses|commas`},
		{"--quiet=5", `--quiet "5"|5s`},
		{"--quiet=0s", `--quiet "0s"|above 0s`},
		{"--quiet=", `--quiet ""|5s`},
		{"--min=-1s", `--min "-1s"|0s at least`},
		{"--grace-period=1s", `--grace-period "1s"|2s at least`},
		{"--shutdown-reserve=0s", `--shutdown-reserve "0s"|above 0s`},
		{"--shutdown-reserve=30s", `--shutdown-reserve 30s|--grace-period 30s|write 29s`},
		{"--after-app=close", `--after-app "close"|relay or reset`},
		{"--after-app=relay", `--after-app "relay"|--relay-to`},
		{"--after-app=reset --relay-to=a:1", `--after-app "reset"|--relay-to|leave one`},
		{"--relay-to=app", `--relay-to "app"|[PORT=]host:port`},
		{"--relay-to=http://app:80", `--relay-to "http://app:80"|[PORT=]host:port`},
		{"--relay-to=x=app:80", `--relay-to "x=app:80"|1 to 65535`},
		{"--relay-to=app:0", `--relay-to "app:0"|1 to 65535`},
		{"--relay-to=service/", `--relay-to "service/"|service/my-app`},
		{"--relay-to=service/a.b", `--relay-to "service/a.b"|service/my-app`},
		{"--relay-to=service/app:80", `--relay-to "service/app:80"|service/my-app`},
		{"--after-app=reset --relay-to=auto", `--after-app "reset"|--relay-to "auto"`},
		{"--relay-to=81=app:80 --port=80", `--relay-to "81=app:80"|--port 81`},
		{"--new-connections=drop", `--new-connections "drop"|serve or reset`},
		{"--new-connections=reset", `--new-connections "reset"|this build of lameduck cannot do that yet|serve`},
		{"--health-path=healthz", `--health-path "healthz"|begins with /`},
		{"--health-path=/a?b", `--health-path "/a?b"|no query`},
		{"--app-health=http://10.0.0.1/", `--app-health "http://10.0.0.1/"|loopback`},
		{"--app-health=https://localhost/", `--app-health "https://localhost/"|http URL`},
		{"--app-health=http://localhost:0/", `--app-health "http://localhost:0/"|1 to 65535`},
		{"--trust-checks", `--trust-checks|add --envoy`},
		{"--trust-checks --envoy=10.0.0.0/8", `--trust-checks|10.0.0.0/8|single addresses`},
		{"--trust-checks=maybe", `--trust-checks "maybe"|true or false`},
		{"--observe-only=2", `--observe-only "2"|true or false`},
		{"--netns=x", `--netns "x"|absolute path`},
		{"--netns=/nonexistent", `--netns "/nonexistent"|no such file|path of a network namespace`},
		{"--quite=5s", `--quite`},
		{"quickly", `unknown command "quickly"|lameduck help`},
		{"run quickly", `"quickly"|flags only`},
		{"drain now", `drain|"now"`},
		{"hold --long", `hold|--long`},
		{"status -o yaml", `--output "yaml"|write json`},
		{"status now", `status|"now"`},
		{"version now", `version|"now"`},
	} {
		t.Run(test.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(test.args), nil, &stdout, &stderr)
			if code != exitUsage || stdout.Len() > 0 {
				t.Errorf("exit %d, output %q", code, stdout.String())
			}
			for _, part := range strings.Split(test.want, "|") {
				if !strings.Contains(stderr.String(), part) {
					t.Errorf("%q is not in: %s", part, stderr.String())
				}
			}
		})
	}
}

func TestUnusableVariablesAreNamed(t *testing.T) {
	for env, want := range map[string]string{
		"LAMEDUCK_QUIET=5":   `LAMEDUCK_QUIET (--quiet) "5"`,
		"NODE_IP=node-1":     `NODE_IP (--node-ip) "node-1"`,
		"LAMEDUCK_PORT=http": `LAMEDUCK_PORT (--port) "http"`,
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), nil, []string{env}, &stderr, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit %d, %s", env, code, stderr.String())
		}
	}
}

func TestEveryUnusableFlagIsSaidAtOnce(t *testing.T) {
	_, err := parseOptions([]string{"--quiet=5", "--min=10"}, nil)
	if err == nil || !strings.Contains(err.Error(), "--quiet") || !strings.Contains(err.Error(), "--min") {
		t.Errorf("got %v", err)
	}
}

// The kubelet makes variables of each Service of the namespace. One called lameduck must not stop the sidecar.
func TestAServiceNamedLameduckSetsNoFlag(t *testing.T) {
	o, err := parseOptions(nil, []string{
		"LAMEDUCK_PORT=tcp://10.0.0.11:8420", "LAMEDUCK_SERVICE_HOST=10.0.0.11", "LAMEDUCK_SERVICE_PORT=8420",
		"LAMEDUCK_SERVICE_PORT_HTTP=8420", "LAMEDUCK_PORT_8420_TCP=tcp://10.0.0.11:8420", "LAMEDUCK_PORT_8420_TCP_ADDR=10.0.0.11",
		"LAMEDUCK_METRICS_PORT=tcp://10.0.0.12:80",
	})
	if err != nil || o.drain.Ports != nil || len(o.notes) > 0 {
		t.Errorf("got %v, %v, %q", o.drain.Ports, err, o.notes)
	}
}

func TestAMistypedVariableIsNoted(t *testing.T) {
	o, err := parseOptions(nil, []string{"LAMEDUCK_QUITE=3s"})
	if err != nil || len(o.notes) != 1 || !strings.Contains(o.notes[0], "LAMEDUCK_QUITE") {
		t.Errorf("got %q, %v", o.notes, err)
	}
}

// Injected flags are the same for all pods, and the grace period is the pod's own: a short one must not keep it from starting.
func TestAShortGracePeriodShrinksTheDefaultReserve(t *testing.T) {
	for grace, want := range map[string]time.Duration{"30s": 5 * time.Second, "10s": 5 * time.Second, "4s": 2 * time.Second, "2s": time.Second} {
		o, err := parseOptions([]string{"--grace-period", grace}, nil)
		if err != nil || o.drain.Reserve != want {
			t.Errorf("%s: %v, %v", grace, o.drain.Reserve, err)
		}
	}
}

func TestFlagsThatCannotTakeEffectAreNoted(t *testing.T) {
	for args, want := range map[string]string{
		"--grace-period=10s --quiet=6s": "--quiet 6s is longer than a hold can be",
		"--grace-period=10s --min=6s":   "--min 6s is longer than a hold can be",
		"--health-path=/x":              "--health-path does nothing without --relay-to",
	} {
		o, err := parseOptions(strings.Fields(args), nil)
		if err != nil || !strings.Contains(strings.Join(o.notes, "\n"), want) {
			t.Errorf("%s: %q, %v", args, o.notes, err)
		}
	}
}
