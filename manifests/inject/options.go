package inject

import (
	"errors"
	"regexp"
	"strings"
)

// Option is one of the things that can be chosen: for all workloads by its name, and for one by the annotation
// lameduck/NAME of its pods (but for the image). The names and patterns are those of the admission policy.
type Option struct {
	Name string
	Kind string // the word for its value: "duration"
	List bool   // of several values with commas between them
	// Default, Meaning and Bounds are for the reference, Fix for the end of an error.
	Default, Meaning, Bounds, Fix string
	// Pattern is what a usable value matches; empty: every value. What lameduck would refuse must not get into a pod, for
	// that would not start.
	Pattern string
}

// Options are all of them.
func Options() []Option {
	return []Option{
		{Name: "image", Kind: "image", Default: "`lameduck:dev`", Meaning: "the sidecar's image", Pattern: `^\S+$`,
			Bounds: "no annotation sets it", Fix: "write an image, for example registry.example/lameduck:1"},
		{Name: "quiet", Kind: "duration", Meaning: "`--quiet` of the sidecars", Pattern: "^[1-9][0-9]{0,6}(ms|s|m)$",
			Bounds: "a whole number of ms, s or m; above 0", Fix: "write a whole number above 0 and its unit, for example 5s or 500ms"},
		{Name: "min", Kind: "duration", Meaning: "`--min` of the sidecars", Pattern: "^[0-9]{1,7}(ms|s|m)$",
			Bounds: "a whole number of ms, s or m", Fix: "write a whole number and its unit, for example 10s or 500ms"},
		{Name: "relay-to", Kind: "[PORT=]host:port", List: true, Meaning: "`--relay-to` of the sidecars",
			Pattern: `^(([1-9][0-9]{0,3}=)?(auto|service/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[A-Za-z0-9][-.A-Za-z0-9]*:([1-9][0-9]{0,3}|[1-5][0-9]{4}))(,|$))+$`,
			Bounds:  "also `service/NAME` and `auto`, where the pods have RBAC for it",
			Fix:     "write [PORT=]host:port, for example my-app.my-namespace.svc:80, or service/NAME, or auto"},
		{Name: "envoy-slices", Kind: "namespace/selector", Meaning: "`--envoy-slices` of the sidecars",
			Pattern: "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[^/].*$", Bounds: "likewise",
			Fix: "write namespace/label-selector, for example envoy-gateway-system/gateway.envoyproxy.io/owning-gateway-name=eg"},
		{Name: "hold", Kind: "name", List: true, Default: "all", Meaning: "the containers that get the hold hook, unless they have a preStop hook", Bounds: "`none`: no container",
			Fix: "write names of containers with commas between them, or none"},
	}
}

// Check judges a value that is to be the default of an option.
func (o Option) Check(value string) error {
	if !o.usable(value) {
		return errors.New(o.Fix)
	}
	return nil
}

// usable is what the admission policy calls so. Go's and CEL's patterns are the same (RE2).
func (o Option) usable(value string) bool {
	if o.Pattern == "" {
		return true
	}
	matches, err := regexp.MatchString(o.Pattern, value)
	return err == nil && matches && !strings.HasSuffix(value, ",")
}

// variable is the sidecar's environment variable.
func (o Option) variable() string {
	return "LAMEDUCK_" + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
}
