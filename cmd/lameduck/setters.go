package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lameduck/drain/kube"
	"lameduck/netns/takeover"
)

// The setters check one value and put it into the options. Their errors say what is wrong and how to mend it;
// the caller adds the flag and the value.

func setAdminAddress(o *options, value string) error {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		return errors.New("write host:port, for example :8420")
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil {
		return errors.New("the host must be an IP address, or left out for all of them")
	}
	number, err := parsePort(port)
	if err != nil {
		return err
	}
	o.adminAddress = value
	o.drain.OwnPorts = []uint16{number}
	return nil
}

func setAdminCert(o *options, value string) error {
	o.adminCert = value
	return present(value)
}

func setAdminKey(o *options, value string) error {
	o.adminKey = value
	return present(value)
}

func present(path string) error {
	if path == "" {
		return errors.New("write the path of a PEM file, for example /tls/tls.crt")
	}
	return nil
}

func setPort(o *options, value string) error {
	port, err := parsePort(value)
	if err != nil {
		return err
	}
	if !slices.Contains(o.drain.Ports, port) {
		o.drain.Ports = append(o.drain.Ports, port)
	}
	return nil
}

func parsePort(value string) (uint16, error) {
	port, err := strconv.ParseUint(value, 10, 16)
	if err != nil || port == 0 {
		return 0, errors.New("a port is a number from 1 to 65535")
	}
	return uint16(port), nil
}

func setEnvoy(o *options, value string) error {
	if addr, err := parseAddr(value); err == nil {
		o.drain.Envoy = append(o.drain.Envoy, netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	prefix, err := netip.ParsePrefix(value)
	if err != nil || prefix.Addr().Is4In6() {
		return errors.New("write an address or a network, for example 10.0.0.7 or 10.0.0.0/24")
	}
	if prefix != prefix.Masked() {
		return fmt.Errorf("write %s for the network, or %s for the one address", prefix.Masked(), prefix.Addr())
	}
	o.drain.Envoy = append(o.drain.Envoy, prefix)
	return nil
}

func parseAddr(value string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(value)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, errors.New("write IP addresses, without a zone")
	}
	return addr.Unmap(), nil
}

func setEnvoySlices(o *options, value string) error {
	namespace, selector, found := strings.Cut(value, "/")
	if !found || !isName(namespace) || selector == "" {
		return errors.New("write namespace/label-selector, for example envoy-gateway-system/gateway.envoyproxy.io/owning-gateway-name=eg")
	}
	o.drain.EnvoySlices = true
	o.kube.Envoys = kube.Query{Namespace: namespace, Selector: selector}
	return nil
}

// isName tells whether a value can be a namespace's or a Service's name (RFC 1123).
func isName(value string) bool {
	edge := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	if value == "" || len(value) > 63 || !edge(value[0]) || !edge(value[len(value)-1]) {
		return false
	}
	return strings.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func setNodeIP(o *options, value string) error {
	o.drain.NodeIPs = nil
	for part := range strings.SplitSeq(value, ",") {
		// The downward API copies what the node says of itself, a link-local address with its zone too. The kernel tells a
		// connection's address without one.
		addr, zone, zoned := strings.Cut(strings.TrimSpace(part), "%")
		if zoned {
			o.notes = append(o.notes, fmt.Sprintf("the zone of the node's address %s%%%s is left out", addr, zone))
		}
		parsed, err := parseAddr(addr)
		if err != nil {
			return fmt.Errorf("%w; several with commas between them", err)
		}
		o.drain.NodeIPs = append(o.drain.NodeIPs, parsed)
	}
	return nil
}

func setQuiet(o *options, value string) (err error) {
	o.drain.Quiet, err = parseDuration(value, time.Nanosecond)
	return err
}

func setMin(o *options, value string) (err error) {
	o.drain.Min, err = parseDuration(value, 0)
	return err
}

func setGracePeriod(o *options, value string) (err error) {
	// Below two seconds nothing is left: lameduck leaves a second before the end.
	o.drain.GracePeriod, err = parseDuration(value, 2*time.Second)
	return err
}

func setReserve(o *options, value string) (err error) {
	o.drain.Reserve, err = parseDuration(value, time.Nanosecond)
	return err
}

func parseDuration(value string, least time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return 0, errors.New("write a number with its unit, for example 5s or 1m30s")
	case d < least && least == time.Nanosecond:
		return 0, errors.New("it must be above 0s")
	case d < least:
		return 0, fmt.Errorf("it must be %v at least", least)
	}
	return d, nil
}

func setAfterApp(o *options, value string) error {
	if value != "relay" && value != "reset" {
		return errors.New("write relay or reset")
	}
	o.afterApp = value
	return nil
}

func setRelayTo(o *options, value string) error {
	target := takeover.Target{Host: value}
	if port, host, found := strings.Cut(value, "="); found {
		number, err := parsePort(port)
		if err != nil {
			return fmt.Errorf("before the equals sign: %w", err)
		}
		target = takeover.Target{Port: number, Host: host}
	}
	if service, ok, err := parseService(target); ok || err != nil {
		if err == nil && !slices.ContainsFunc(o.takeover.Targets, func(t takeover.Target) bool { return t.Host == target.Host && t.Port == target.Port }) {
			service.Target, target.Given = len(o.takeover.Targets), true
			o.kube.Services = append(o.kube.Services, service)
			o.takeover.Targets = append(o.takeover.Targets, target)
		}
		return err
	}
	host, port, err := net.SplitHostPort(target.Host)
	if err != nil || host == "" || strings.ContainsAny(host, "/ ") {
		return errors.New("write [PORT=]host:port, for example 8080=my-app.my-namespace.svc:80, or service/NAME, or auto")
	}
	if _, err := parsePort(port); err != nil {
		return err
	}
	if !slices.Contains(o.takeover.Targets, target) {
		o.takeover.Targets = append(o.takeover.Targets, target)
	}
	return nil
}

// parseService tells whether a target names Services, and which.
func parseService(t takeover.Target) (kube.Service, bool, error) {
	if t.Host == "auto" {
		return kube.Service{Port: t.Port}, true, nil
	}
	name, found := strings.CutPrefix(t.Host, "service/")
	if found && !isName(name) {
		return kube.Service{}, false, errors.New("write service/ and the name of a Service in this pod's namespace, for example service/my-app")
	}
	return kube.Service{Port: t.Port, Name: name}, found, nil
}

func setNewConnections(_ *options, value string) error {
	switch value {
	case "serve":
		return nil
	case "reset":
		return fmt.Errorf("%w: leave it at serve", errLater)
	}
	return errors.New("write serve or reset")
}

func setHealthPath(o *options, value string) error {
	if !strings.HasPrefix(value, "/") || strings.ContainsAny(value, "?# ") {
		return errors.New("write a path that begins with / and has no query, for example /healthz")
	}
	o.takeover.HealthPaths = append(o.takeover.HealthPaths, value)
	return nil
}

func setAppHealth(o *options, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Fragment != "" || !isLoopback(u.Hostname()) {
		return errors.New("write an http URL on loopback, for example http://127.0.0.1:8080/healthz")
	}
	if port := u.Port(); port != "" {
		if _, err := parsePort(port); err != nil {
			return err
		}
	}
	o.appHealth = value
	return nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func setTrustChecks(o *options, value string) (err error) {
	o.drain.TrustChecks, err = parseSwitch(value)
	return err
}

func setObserveOnly(o *options, value string) (err error) {
	o.drain.ObserveOnly, err = parseSwitch(value)
	return err
}

func parseSwitch(value string) (bool, error) {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return false, errors.New("write true or false")
	}
	return on, nil
}

func setNetns(o *options, value string) error {
	if !strings.HasPrefix(value, "/") {
		return errors.New("write an absolute path, for example /run/netns/NAME or /proc/PID/ns/net")
	}
	o.netns = value
	return nil
}
