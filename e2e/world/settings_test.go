package world_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"lameduck/e2e/world"
)

// gatewayPolicy is what the recommended BackendTrafficPolicy says, as a Policy of the world.
func gatewayPolicy(t *testing.T) world.Policy {
	t.Helper()
	spec := at(t, readYAML(t, policyFile), "spec")
	get := func(path ...any) string { return fmt.Sprint(at(t, spec, path...)) }
	var on []string
	for _, trigger := range at(t, spec, "retry", "retryOn", "triggers").([]any) {
		on = append(on, trigger.(string))
	}
	return settings{
		connect: get("timeout", "tcp", "connectTimeout"),
		on:      strings.Join(on, ","), retries: get("retry", "numRetries"),
		base: get("retry", "perRetry", "backOff", "baseInterval"), most: get("retry", "perRetry", "backOff", "maxInterval"),
		split:    get("healthCheck", "passive", "splitExternalLocalOriginErrors"),
		failures: get("healthCheck", "passive", "consecutiveLocalOriginFailures"),
		percent:  get("healthCheck", "passive", "maxEjectionPercent"), one: get("healthCheck", "passive", "alwaysEjectOneEndpoint"),
		path: get("healthCheck", "active", "http", "path"), port: get("healthCheck", "active", "overrides", "port"),
		interval: get("healthCheck", "active", "interval"), timeout: get("healthCheck", "active", "timeout"),
		threshold: get("healthCheck", "active", "unhealthyThreshold"),
	}.policy(t)
}

// plainPolicy is what the recommended settings of a plain Envoy say.
func plainPolicy(t *testing.T) world.Policy {
	t.Helper()
	resources := at(t, readYAML(t, plainFile), "static_resources")
	cluster := at(t, resources, "clusters", 0)
	retry := at(t, resources, "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config", "route_config", "virtual_hosts", 0,
		"routes", 0, "route", "retry_policy")
	get := func(path ...any) string { return fmt.Sprint(at(t, cluster, path...)) }
	if get("health_checks", 0, "no_traffic_interval") != get("health_checks", 0, "interval") {
		t.Error("a cluster without traffic is checked seldom")
	}
	return settings{
		connect: get("connect_timeout"),
		on:      fmt.Sprint(at(t, retry, "retry_on")), retries: fmt.Sprint(at(t, retry, "num_retries")),
		base:     fmt.Sprint(at(t, retry, "retry_back_off", "base_interval")),
		most:     fmt.Sprint(at(t, retry, "retry_back_off", "max_interval")),
		split:    get("outlier_detection", "split_external_local_origin_errors"),
		failures: get("outlier_detection", "consecutive_local_origin_failure"),
		percent:  get("outlier_detection", "max_ejection_percent"), one: get("outlier_detection", "always_eject_one_host"),
		path:     get("health_checks", 0, "http_health_check", "path"),
		port:     get("load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint", "health_check_config", "port_value"),
		interval: get("health_checks", 0, "interval"), timeout: get("health_checks", 0, "timeout"),
		threshold: get("health_checks", 0, "unhealthy_threshold"),
	}.policy(t)
}

// settings are the values of either file, as they are written.
type settings struct {
	connect, on, retries, base, most         string
	split, failures, percent, one            string
	path, port, interval, timeout, threshold string
}

// policy is what the settings say. It fails the test where the world would not do what they say.
func (s settings) policy(t *testing.T) world.Policy {
	t.Helper()
	duration := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	number := func(text string) (n int) {
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return n
	}
	if s.split != "true" || s.threshold != "3" {
		t.Errorf("the world has no such policy: %+v", s)
	}
	return world.Policy{
		ConnectTimeout: duration(s.connect),
		Retry:          &world.Retry{On: s.on, Count: uint32(number(s.retries)), BaseBackOff: duration(s.base), MaxBackOff: duration(s.most)},
		Passive: &world.Passive{
			ConsecutiveLocal: uint32(number(s.failures)), MaxEjectionPercent: uint32(number(s.percent)), AlwaysOne: s.one == "true",
			Interval: 3 * time.Second, BaseEjectionTime: 30 * time.Second, // Envoy Gateway's defaults
		},
		Active: &world.Active{Path: s.path, Port: uint16(number(s.port)), Interval: duration(s.interval), Timeout: duration(s.timeout)},
	}
}

func readYAML(t *testing.T, path string) any {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parseYAML(t, content)
}

func parseYAML(t *testing.T, content []byte) any {
	t.Helper()
	var value any
	if err := yaml.UnmarshalStrict(content, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// at is what stands at a path of fields and indexes.
func at(t *testing.T, value any, path ...any) any {
	t.Helper()
	for _, step := range path {
		next, ok := value, false
		switch s := step.(type) {
		case string:
			next, ok = value.(map[string]any)[s]
		case int:
			if list, isList := value.([]any); isList && s < len(list) {
				next, ok = list[s], true
			}
		}
		if !ok {
			t.Fatalf("nothing stands at %v", path)
		}
		value = next
	}
	return value
}
