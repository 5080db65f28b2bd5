package cluster_test

import (
	"encoding/json"
	"testing"

	"lameduck/e2e/cluster"
	"lameduck/e2e/manifest"
)

// TestAdmissionPolicyInjects: failurePolicy Ignore hides every mistake of the policy, so each pod is asked about. All of
// them pass Pod Security's strictest level, or they would not be admitted.
func TestAdmissionPolicyInjects(t *testing.T) {
	t.Parallel()
	for _, a := range manifest.Admissions() {
		t.Run(a.Name, func(t *testing.T) {
			if err := here.Admit(t.Context(), a); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAdmissionPolicyDoesNothingTwice: what it has made comes to it again, as a pod that is restored from a backup does.
func TestAdmissionPolicyDoesNothingTwice(t *testing.T) {
	t.Parallel()
	first := admitted(t, manifest.Admission{Spec: manifest.Plain()}.Pod())
	if again := admitted(t, first); again != first {
		t.Errorf("injected again:\n%s\nand not:\n%s", again, first)
	}
}

// admitted is the spec that the API server makes of a pod in the labelled namespace, as a pod that can be sent again.
func admitted(t *testing.T, pod string) string {
	t.Helper()
	out, err := here.Admitted(t.Context(), cluster.Labelled, pod)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Spec map[string]any
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatal(err)
	}
	again, err := json.MarshalIndent(cluster.Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": cluster.Object{"name": "pod"}, "spec": answer.Spec,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(again)
}
