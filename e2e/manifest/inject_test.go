package manifest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"lameduck/manifests/inject"
)

// The example runs as kustomize runs it: the binary beside its kustomization.
func TestInjectIsAFunctionOfKustomize(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../manifests/examples/inject")); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "lameduck"), "./cmd/lameduck")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	options := krusty.MakeDefaultOptions()
	options.PluginConfig.FnpLoadingOptions.EnableExec = true
	options.PluginConfig.PluginRestrictions = types.PluginRestrictionsNone // --enable-alpha-plugins
	run := func() ([]byte, error) {
		resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
		if err != nil {
			return nil, err
		}
		return resources.AsYaml()
	}
	got, err := run()
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "inject", got)

	config := filepath.Join(dir, "inject.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, bytes.Replace(text, []byte("quiet: 3s"), []byte("quiet: three"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("an unusable option: %v", err)
	}
}

// Inject and the admission policy make the same of every pod that the cluster's tests ask the policy about. They differ in
// one thing: inject takes every pod that is not labelled `disabled`, the policy only those that are asked for by a label, on
// the pod or on its namespace.
func TestInjectMakesOfPodsWhatThePolicyMakes(t *testing.T) {
	for _, a := range Admissions() {
		t.Run(a.Name, func(t *testing.T) {
			if a.Name == "neither" {
				a.Grace, a.Held = "30s", []string{"app"}
			}
			out, _, err := inject.Stream([]byte(a.Pod()), nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := yaml.YAMLToJSON(out)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Check(answer); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestInjectTakesTheOptionsOfThePolicy(t *testing.T) {
	patterns := policy(t, "patterns")
	for _, o := range inject.Options() {
		switch o.Name {
		case "image", "hold":
		default:
			if got := patterns[o.Name]; got != o.Pattern {
				t.Errorf("the policy takes as %s %q, inject %q", o.Name, got, o.Pattern)
			}
			delete(patterns, o.Name)
		}
	}
	if len(patterns) > 0 {
		t.Errorf("inject does not know %v", patterns)
	}
}

// injected is what inject adds to a pod that says nothing of itself.
func injected(t *testing.T) (sidecar map[string]any, lifecycle any) {
	t.Helper()
	out, _, err := inject.Stream([]byte("apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a}]}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var pod struct {
		Spec struct{ InitContainers, Containers []map[string]any }
	}
	if err := yaml.Unmarshal(out, &pod); err != nil {
		t.Fatal(err)
	}
	return pod.Spec.InitContainers[0], pod.Spec.Containers[0]["lifecycle"]
}

func TestPolicyAddsWhatInjectAdds(t *testing.T) {
	sidecar, lifecycle := injected(t)
	if got := policy(t, "sidecar"); !reflect.DeepEqual(got, sidecar) {
		t.Errorf("the policy's is\n%v\nnot\n%v", got, sidecar)
	}
	if got := policy(t, "hold")["lifecycle"]; !reflect.DeepEqual(got, lifecycle) {
		t.Errorf("the policy's hook is %v, not %v", got, lifecycle)
	}
}

// The component and the two Deployments are less by a little: POD_NAME and POD_UID, which the Event and --relay-to=auto need,
// are in discovery/. The component has no --grace-period, and lameduck then takes it for 30 s.
func TestManifestsHaveTheSidecarThatInjectAdds(t *testing.T) {
	want, lifecycle := injected(t)
	if args := want["args"]; !reflect.DeepEqual(args, []any{"--grace-period=30s"}) {
		t.Errorf("arguments %v", args)
	}
	env := want["env"].([]any)
	if got := names(env); !slices.Equal(got, []string{"NODE_IP", "POD_NAME", "POD_UID"}) {
		t.Errorf("variables %q", got)
	}
	delete(want, "args")
	want["env"] = env[:1]
	component := workloads(t, "testdata/real")["queue"]
	if got := component["initContainers"].([]any)[0]; !reflect.DeepEqual(got, any(want)) {
		t.Errorf("the component's is\n%v\nnot\n%v", got, want)
	}
	if got := hooks(component)["app"]; !reflect.DeepEqual(any(got), lifecycle) {
		t.Errorf("the component's hook is %v", got)
	}
	all := sidecars(t)
	delete(all["native"], "args")
	if !reflect.DeepEqual(all["native"], want) {
		t.Errorf("native is\n%v\nnot\n%v", all["native"], want)
	}
	delete(all["plain"], "args")
	delete(want, "restartPolicy")
	want["env"] = flowYAML(t, "[{name: NODE_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]") // Kubernetes < 1.29 knows one
	if !reflect.DeepEqual(all["plain"], want) {
		t.Errorf("plain is\n%v\nnot\n%v", all["plain"], want)
	}
}

func flowYAML(t *testing.T, text string) (value any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

// policy reads an object literal of the admission policy's: CEL's are YAML's flow mappings but for the types before them,
// and for what is computed.
func policy(t *testing.T, part string) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../../manifests/policy/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Spec struct {
			Variables []struct{ Name, Expression string }
			Mutations []struct {
				JSONPatch, ApplyConfiguration struct{ Expression string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	var expression, start string
	switch part {
	case "patterns":
		for _, v := range p.Spec.Variables {
			if v.Name == "patterns" {
				expression, start = v.Expression, "{"
			}
		}
	case "sidecar":
		expression, start = p.Spec.Mutations[0].JSONPatch.Expression, "Object.spec.initContainers{"
	case "hold":
		expression, start = p.Spec.Mutations[1].ApplyConfiguration.Expression, "Object.spec.containers{"
	}
	_, literal, found := strings.Cut(expression, start)
	if !found {
		t.Fatalf("the policy has no %q", start)
	}
	literal = "{" + literal
	for _, computed := range [][2]string{
		{`variables\.image`, `"lameduck:dev"`},
		{`"--grace-period=" \+ string\([^)]*\)\) \+ "s"`, `"--grace-period=30s"`},
		{`(?s)\] \+ variables\.usable\.map\(.*?\}\),`, `],`},
		{`c\.name`, `"a"`},
		{`Object(\.\w+)*\{`, `{`},
	} {
		literal = regexp.MustCompile(computed[0]).ReplaceAllString(literal, computed[1])
	}
	value := map[string]any{}
	if err := yaml.Unmarshal([]byte(literal[:closing(literal)]), &value); err != nil {
		t.Fatalf("%v in %s", err, literal)
	}
	return value
}

// closing is the end of the mapping that a text begins with. Brackets within strings are passed over.
func closing(text string) int {
	depth, within := 0, false
	for i, c := range text {
		switch {
		case c == '"':
			within = !within
		case within:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}
