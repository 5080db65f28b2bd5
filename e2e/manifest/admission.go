// Package manifest shows that the manifests do what they say: the kustomize components by their output, the admission
// policy by pods that an API server is asked about.
package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Admission is a pod, and what the policy makes of it. failurePolicy Ignore hides every mistake in a policy, so each pod
// that shall be injected proves that it works.
type Admission struct {
	Name string
	// Labelled: the namespace has lameduck/inject: enabled.
	Labelled bool
	// Metadata and Spec are YAML flow mappings of the pod's, without their braces.
	Metadata, Spec string
	// Grace is the sidecar's --grace-period; empty: the pod stays as it is.
	Grace string
	// Options are the sidecar's LAMEDUCK_ variables.
	Options map[string]string
	// Held are the containers that have the hold hook.
	Held []string
	// Others are the initContainers after the sidecar.
	Others []string
}

// Pod is the pod's manifest.
func (a Admission) Pod() string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: pod, %s}\nspec: {%s}\n", a.Metadata, a.Spec)
}

// restricted is what Pod Security `restricted` asks of a pod, and of each container.
const (
	restricted = "securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}, "
	safe       = ", image: app, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"
)

func app(name string, more string) string { return "{name: " + name + safe + more + "}" }

// Plain is the spec of a pod of one container.
func Plain() string { return restricted + "containers: [" + app("app", "") + "]" }

// Admissions are the pods to ask about. Namespaces enforce Pod Security `restricted`.
func Admissions() []Admission {
	one := Plain()
	enabled := "labels: {lameduck/inject: enabled}"
	annotated := func(key, value string) string { return "annotations: {lameduck/" + key + ": '" + value + "'}" }
	held := []string{"app"}
	all := []Admission{
		{Name: "labelled namespace", Labelled: true, Spec: one, Grace: "30s", Held: held},
		{Name: "labelled pod", Metadata: enabled, Spec: one, Grace: "30s", Held: held},
		{Name: "both", Labelled: true, Metadata: enabled, Spec: one, Grace: "30s", Held: held},
		{Name: "neither", Spec: one},
		{Name: "a pod that will not", Labelled: true, Metadata: "labels: {lameduck/inject: disabled}", Spec: one},
		{Name: "its own grace period", Labelled: true, Spec: one + ", terminationGracePeriodSeconds: 120", Grace: "120s", Held: held},
		{Name: "no time to drain", Labelled: true, Spec: one + ", terminationGracePeriodSeconds: 1"},
		{Name: "a sidecar by hand", Labelled: true, Spec: restricted + "containers: [" + app("app", "") + ", " + app("lameduck", "") + "]"},
		{Name: "several containers, hooks, initContainers", Labelled: true, Spec: restricted +
			"initContainers: [" + app("first", "") + ", " + app("second", ", restartPolicy: Always") + "], containers: [" +
			app("app", ", ports: [{name: http, containerPort: 8080}], lifecycle: {postStart: {exec: {command: [a]}}}") + ", " +
			app("own", ", lifecycle: {preStop: {sleep: {seconds: 5}}}") + ", " + app("log", "") + "]",
			Grace: "30s", Held: []string{"app", "log"}, Others: []string{"first", "second"}},
		{Name: "a hook for one container", Labelled: true, Metadata: annotated("hold", "log, none"), Spec: restricted +
			"containers: [" + app("app", "") + ", " + app("log", "") + "]", Grace: "30s", Held: []string{"log"}},
		{Name: "no hook", Labelled: true, Metadata: annotated("hold", "none"), Spec: one, Grace: "30s"},
	}
	for _, o := range []struct{ key, value, variable string }{
		{"quiet", "500ms", "LAMEDUCK_QUIET"}, {"min", "0s", "LAMEDUCK_MIN"},
		{"relay-to", "auto", "LAMEDUCK_RELAY_TO"}, {"relay-to", "8080=service/my-app,my-app.shop.svc:80", "LAMEDUCK_RELAY_TO"},
		{"envoy-slices", "gateways/a=b,c in (d)", "LAMEDUCK_ENVOY_SLICES"},
		// What lameduck would refuse, and the pod then not start.
		{"quiet", "5", ""}, {"quiet", "0s", ""}, {"min", "-1s", ""}, {"relay-to", "my-app:99999", ""}, {"relay-to", "auto,", ""},
		{"relay-to", "service/", ""}, {"envoy-slices", "Gateways/a=b", ""}, {"envoy-slices", "gateways/", ""},
	} {
		a := Admission{Name: o.key + " " + o.value, Labelled: true, Metadata: annotated(o.key, o.value), Spec: one, Grace: "30s", Held: held}
		if o.variable != "" {
			a.Options = map[string]string{o.variable: o.value}
		}
		all = append(all, a)
	}
	return all
}

// pod is what is looked at in an answer.
type pod struct {
	Spec struct {
		InitContainers, Containers []container
	}
}

type container struct {
	Name          string
	RestartPolicy string
	Args          []string
	Env           []struct{ Name, Value string }
	Lifecycle     struct {
		PreStop *struct {
			HTTPGet *struct {
				Path string
				Port any
			}
			Exec *struct{ Command []string }
		}
	}
}

// Check tells what is not as it should be in the API server's answer, the pod as JSON.
func (a Admission) Check(answer []byte) error {
	var p pod
	if err := json.Unmarshal(answer, &p); err != nil {
		return fmt.Errorf("%w in %q", err, answer)
	}
	var held []string
	for _, c := range p.Spec.Containers {
		if hook := c.Lifecycle.PreStop; hook != nil && hook.HTTPGet != nil && hook.HTTPGet.Path == "/hold" {
			held = append(held, c.Name)
		}
	}
	if !slices.Equal(held, a.Held) {
		return fmt.Errorf("the hold hook is on %q, not on %q", held, a.Held)
	}
	inits := p.Spec.InitContainers
	if a.Grace == "" {
		if slices.ContainsFunc(inits, func(c container) bool { return c.Name == "lameduck" }) {
			return fmt.Errorf("there is a sidecar")
		}
		return nil
	}
	if len(inits) == 0 || inits[0].Name != "lameduck" || inits[0].RestartPolicy != "Always" {
		return fmt.Errorf("no native sidecar comes first: %+v", inits)
	}
	return a.checkSidecar(inits[0], inits[1:])
}

func (a Admission) checkSidecar(sidecar container, rest []container) error {
	var others []string
	for _, c := range rest {
		others = append(others, c.Name)
	}
	if !slices.Equal(others, a.Others) {
		return fmt.Errorf("initContainers %q follow, not %q", others, a.Others)
	}
	if want := []string{"--grace-period=" + a.Grace}; !slices.Equal(sidecar.Args, want) {
		return fmt.Errorf("arguments %q, not %q", sidecar.Args, want)
	}
	options := map[string]string{}
	for _, e := range sidecar.Env {
		if strings.HasPrefix(e.Name, "LAMEDUCK_") {
			options[e.Name] = e.Value
		}
	}
	if !maps.Equal(options, a.Options) {
		return fmt.Errorf("options %q, not %q", options, a.Options)
	}
	if hook := sidecar.Lifecycle.PreStop; hook == nil || hook.Exec == nil || !slices.Equal(hook.Exec.Command, []string{"/lameduck", "drain"}) {
		return fmt.Errorf("its hook is %+v", hook)
	}
	return nil
}
