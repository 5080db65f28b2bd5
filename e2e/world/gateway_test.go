package world_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"lameduck/e2e/world"
)

// What manifests/gateway/ recommends.
const (
	policyFile = "../../manifests/gateway/backendtrafficpolicy.yaml"
	plainFile  = "../../manifests/gateway/envoy-cluster.yaml"
	// gatewayModule holds the schema of the policy: of Envoy Gateway, no part of any go.mod here for one file's sake.
	gatewayModule = "github.com/envoyproxy/gateway@v1.9.1"
	gatewaySchema = "charts/gateway-helm/charts/crds/crds/generated/gateway.envoyproxy.io_backendtrafficpolicies.yaml"
)

// TestBackendTrafficPolicyFitsItsSchema: every field is one of Envoy Gateway's, with a value that it allows.
func TestBackendTrafficPolicyFitsItsSchema(t *testing.T) {
	schema := policySchema(t)
	policy := readYAML(t, policyFile)
	if err := schema.Validate(policy); err != nil {
		t.Errorf("%#v", err)
	}
	// The test can fail: a misspelt field, and a value that is not allowed.
	for old, broken := range map[string]string{"healthCheck:": "healthChecks:", "port: 8420": "port: 0", "- connect-failure": "- connection-failure"} {
		content, err := os.ReadFile(policyFile)
		if err != nil || !strings.Contains(string(content), old) {
			t.Fatalf("no %q: %v", old, err)
		}
		if schema.Validate(parseYAML(t, []byte(strings.Replace(string(content), old, broken, 1)))) == nil {
			t.Errorf("%q is allowed", broken)
		}
	}
}

// policySchema is the schema of the policy's CRD, made strict as the API server's field validation is.
func policySchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var module struct{ Dir, Error string }
	cmd := exec.Command("go", "mod", "download", "-json", gatewayModule)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err := errors.Join(err, json.Unmarshal(out, &module)); err != nil {
		t.Fatalf("%s cannot be had: %v %s", gatewayModule, err, module.Error)
	}
	crd := readYAML(t, filepath.Join(module.Dir, gatewaySchema))
	schema := at(t, crd, "spec", "versions", 0, "schema", "openAPIV3Schema").(map[string]any)
	delete(schema["properties"].(map[string]any), "metadata") // any object
	closeObjects(schema)
	schema["properties"].(map[string]any)["metadata"] = true
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("policy.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// closeObjects forbids fields that a schema does not name.
func closeObjects(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if _, ok := s["properties"].(map[string]any); ok && s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] == nil {
			s["additionalProperties"] = false
		}
		for _, part := range s {
			closeObjects(part)
		}
	case []any:
		for _, part := range s {
			closeObjects(part)
		}
	}
}

// TestPlainEnvoyTakesTheSettings: the real Envoy finds nothing wrong with them.
func TestPlainEnvoyTakesTheSettings(t *testing.T) {
	out, err := exec.Command(tools.Envoy, "--mode", "validate", "--disable-hot-restart", "-c", plainFile).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "OK") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestBothKindsOfSettingsSayTheSame(t *testing.T) {
	if policy, plain := gatewayPolicy(t), plainPolicy(t); !reflect.DeepEqual(policy, plain) {
		t.Errorf("Envoy Gateway: %+v %+v %+v %+v\nplain Envoy:   %+v %+v %+v %+v", policy, *policy.Retry, *policy.Passive, *policy.Active,
			plain, *plain.Retry, *plain.Passive, *plain.Active)
	}
}

// TestRecommendedPolicyTellsEnvoyOfThePodsEnd: with the very values of the manifest, under lameduck.
func TestRecommendedPolicyTellsEnvoyOfThePodsEnd(t *testing.T) {
	row := told{trust: true, limit: 2500 * time.Millisecond}
	spec := row.spec(10 * time.Second)
	spec.Envoy.Policy = gatewayPolicy(t)
	r := run(t, spec)
	lossless(t, r)
	endsBy(t, r, row.limit)
	if r.Replayed > 0 {
		t.Errorf("%d requests came twice", r.Replayed)
	}
}

// TestRecommendedPolicyHelpsWithoutADrainToo: a pod is gone without a word, as with a lost node, and Envoy does not hear of
// it. Its retries and ejection save what the defaults lose; those that met the dead address first take a connect timeout.
func TestRecommendedPolicyHelpsWithoutADrainToo(t *testing.T) {
	spec := world.Spec{Duration: 10 * time.Second, Envoy: world.Envoy{Lag: world.Never, Watch: true}, Events: deletePods(1)}
	t.Run("recommended", func(t *testing.T) {
		spec := spec
		spec.Envoy.Policy = gatewayPolicy(t)
		spec.Envoy.Policy.Active = nil // there is no lameduck to ask
		r := run(t, spec)
		if n := len(r.Load.Failures); n > rate/20 { // what was in flight in the pod
			t.Errorf("%d lost: %v", n, r.Load.Kinds())
		}
		if r.Load.P99 > 3*time.Second || r.Load.Slowest > 5*time.Second || r.Replayed > 0 {
			t.Errorf("p99 %v, slowest %v, %d came twice", r.Load.P99, r.Load.Slowest, r.Replayed)
		}
		if got := states(r, proxy, 0); !slices.Contains(got, "failed_outlier_check") {
			t.Errorf("it was not ejected: %v", got)
		}
	})
	t.Run("Envoy Gateway's default", func(t *testing.T) {
		spec := spec
		spec.Envoy.Policy = world.DefaultRetryPolicy()
		if n := len(run(t, spec).Load.Failures); n < rate {
			t.Errorf("%d lost", n)
		}
	})
}
