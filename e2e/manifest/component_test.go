package manifest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

func kustomize(t *testing.T, dir string) resmap.ResMap {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return resources
}

// kustomizations are the examples, and the components applied to workloads as people have them.
func kustomizations() map[string]string {
	return map[string]string{
		"shop":   "../../manifests/examples/shop",
		"policy": "../../manifests/policy",
		"real":   "testdata/real",
		"named":  "testdata/named",
		"bare":   "testdata/bare",
	}
}

func TestKustomizationsGiveWhatTheyAlwaysGave(t *testing.T) {
	for name, dir := range kustomizations() {
		t.Run(name, func(t *testing.T) {
			got, err := kustomize(t, dir).AsYaml()
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, name, got)
		})
	}
}

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	golden := filepath.Join("testdata/golden", name+".yaml")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test ./manifest -update writes it anew):\n%s", golden, got)
	}
}

// workload is what is looked at in a Deployment or a StatefulSet.
type workload struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct{ Template struct{ Spec map[string]any } }
}

func workloads(t *testing.T, dir string) map[string]map[string]any {
	t.Helper()
	pods := map[string]map[string]any{}
	for _, r := range kustomize(t, dir).Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var w workload
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatal(err)
		}
		if w.Kind == "Deployment" || w.Kind == "StatefulSet" {
			pods[w.Metadata.Name] = w.Spec.Template.Spec
		}
	}
	return pods
}

func names(list any) (all []string) {
	items, _ := list.([]any)
	for _, item := range items {
		all = append(all, item.(map[string]any)["name"].(string))
	}
	return all
}

// hooks are the lifecycle of each container.
func hooks(pod map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, item := range pod["containers"].([]any) {
		c := item.(map[string]any)
		lifecycle, _ := c["lifecycle"].(map[string]any)
		all[c["name"].(string)] = lifecycle
	}
	return all
}

func isHold(lifecycle map[string]any) bool {
	hook, _ := lifecycle["preStop"].(map[string]any)
	get, _ := hook["httpGet"].(map[string]any)
	return len(hook) == 1 && get["path"] == "/hold"
}

func TestSidecarComesFirstInEveryDeploymentAndStatefulSet(t *testing.T) {
	for _, dir := range []string{"testdata/real", "testdata/named", "testdata/bare"} {
		pods := workloads(t, dir)
		for name, want := range map[string][]string{"frontend": {"lameduck", "migrate", "tracer"}, "queue": {"lameduck"}} {
			if got := names(pods[name]["initContainers"]); !slices.Equal(got, want) {
				t.Errorf("%s, %s: initContainers %q", dir, name, got)
			}
		}
	}
}

func TestHoldHookReplacesThatOfTheFirstContainerOnly(t *testing.T) {
	for name, pod := range workloads(t, "testdata/real") {
		all := hooks(pod)
		if !isHold(all["app"]) || all["app"]["postStart"] != nil {
			t.Errorf("%s: hooks %v", name, all["app"])
		}
		if logs, ok := all["logs"]; ok && isHold(logs) {
			t.Errorf("%s: a second container is held", name)
		}
	}
}

func TestHookByNameKeepsWhatElseTheContainerDoes(t *testing.T) {
	all := hooks(workloads(t, "testdata/named")["frontend"])
	if !isHold(all["app"]) || all["app"]["postStart"] == nil || isHold(all["logs"]) {
		t.Errorf("hooks %v", all)
	}
}

func TestBareSidecarLeavesHooksAlone(t *testing.T) {
	for name, lifecycle := range hooks(workloads(t, "testdata/bare")["frontend"]) {
		if isHold(lifecycle) || len(lifecycle) == 0 {
			t.Errorf("%s: hooks %v", name, lifecycle)
		}
	}
}
