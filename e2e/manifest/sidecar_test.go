package manifest

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// sidecars are every lameduck container that the manifests make, by where it comes from.
func sidecars(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	enter := func(from string, pod map[string]any) {
		for _, list := range []string{"initContainers", "containers"} {
			items, _ := pod[list].([]any)
			for _, item := range items {
				if c := item.(map[string]any); c["name"] == "lameduck" {
					all[from] = c
				}
			}
		}
	}
	for _, name := range []string{"native", "plain"} {
		text, err := os.ReadFile("../../manifests/sidecar/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var w workload
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatal(err)
		}
		enter(name, w.Spec.Template.Spec)
	}
	for name, pod := range workloads(t, "../../manifests/examples/shop") {
		enter(name, pod)
	}
	if len(all) != 3 {
		t.Fatalf("%d sidecars", len(all))
	}
	return all
}

// A CPU limit delays the exec hook by up to 0.4 s, and a liveness probe may end lameduck in the one minute that it is for.
func TestSidecarHasNoCPULimitAndNoLivenessProbe(t *testing.T) {
	for name, c := range sidecars(t) {
		resources := c["resources"].(map[string]any)
		if resources["limits"].(map[string]any)["cpu"] != nil || resources["requests"].(map[string]any)["memory"] == nil {
			t.Errorf("%s: resources %v", name, resources)
		}
		if c["livenessProbe"] != nil || c["startupProbe"] != nil {
			t.Errorf("%s: it is probed", name)
		}
	}
}

// Pod Security `restricted`, and a root that cannot be written.
func TestSidecarIsRestricted(t *testing.T) {
	for name, c := range sidecars(t) {
		s := c["securityContext"].(map[string]any)
		drop := s["capabilities"].(map[string]any)["drop"].([]any)
		if s["runAsNonRoot"] != true || s["allowPrivilegeEscalation"] != false || s["readOnlyRootFilesystem"] != true ||
			s["seccompProfile"].(map[string]any)["type"] != "RuntimeDefault" || len(drop) != 1 || drop[0] != "ALL" ||
			s["capabilities"].(map[string]any)["add"] != nil || s["runAsUser"] != float64(65532) {
			t.Errorf("%s: %v", name, s)
		}
	}
}
