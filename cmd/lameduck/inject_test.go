package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const plainPod = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: app\n    - name: log # as it is\n"

func injected(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, said bytes.Buffer
	code = runInject(args, strings.NewReader(stdin), &out, &said)
	return code, out.String(), said.String()
}

func TestInjectIsAFilter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(path, []byte(plainPod), 0o600); err != nil {
		t.Fatal(err)
	}
	options := []string{"--image=i:1", "--quiet=3s", "--min=0s", "--relay-to=auto", "--relay-to=8080=b:80", "--envoy-slices=n/a=b", "--hold=log"}
	for _, args := range [][]string{nil, {"-f", "-"}, {"-f", path}, {"--filename=" + path}} {
		code, out, said := injected(t, plainPod, append(args, options...)...)
		if code != exitOK || said != "" {
			t.Errorf("%q: exit %d, %q", args, code, said)
		}
		for _, want := range []string{
			"        - {name: LAMEDUCK_QUIET, value: 3s}\n", "        - {name: LAMEDUCK_MIN, value: 0s}\n", "      image: i:1\n",
			"        - {name: LAMEDUCK_RELAY_TO, value: 'auto,8080=b:80'}\n", "        - {name: LAMEDUCK_ENVOY_SLICES, value: n/a=b}\n",
			"    - name: log # as it is\n      lifecycle:\n        preStop:\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%q: no %q in\n%s", args, want, out)
			}
		}
		if strings.Count(out, "/hold") != 1 {
			t.Errorf("%q: not one hook in\n%s", args, out)
		}
	}
}

func TestInjectNamesTheFlagAndTheFix(t *testing.T) {
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"--quiet=5"}, `--quiet "5": write a whole number above 0 and its unit`},
		{[]string{"--min=-1s"}, `--min "-1s": write a whole number and its unit`},
		{[]string{"--relay-to=x"}, `--relay-to "x": write [PORT=]host:port`},
		{[]string{"--envoy-slices=x"}, `--envoy-slices "x": write namespace/label-selector`},
		{[]string{"--image="}, `--image "": write an image`},
		{[]string{"pod.yaml"}, `write -f pod.yaml`},
		{[]string{"--only"}, `unknown flag: --only`},
	} {
		if code, out, said := injected(t, plainPod, c.args...); code != exitUsage || out != "" || !strings.Contains(said, c.said) {
			t.Errorf("%q: exit %d, %q, %q", c.args, code, out, said)
		}
	}
}

// Half of a stream must not reach a cluster.
func TestInjectPrintsNothingWhereAWorkloadCannotBeInjected(t *testing.T) {
	code, out, said := injected(t, plainPod+"---\napiVersion: v1\nkind: Pod\nspec: {containers: [7]}\n")
	if code != exitFailed || out != "" || !strings.HasPrefix(said, `lameduck: inject: stdin:10: Pod: container "": it is no mapping`) {
		t.Errorf("exit %d, %q, %q", code, out, said)
	}
	code, out, said = injected(t, "", "-f", "/none/such")
	if code != exitFailed || out != "" || !strings.Contains(said, `--filename "/none/such": open /none/such`) {
		t.Errorf("exit %d, %q, %q", code, out, said)
	}
}

// functionList is what kustomize sends a function.
const functionList = `apiVersion: config.kubernetes.io/v1
kind: ResourceList
items:
- apiVersion: v1
  kind: Pod
  spec:
    containers:
    - name: app
functionConfig:
  apiVersion: v1
  kind: ConfigMap
  data: {quiet: 7s, image: "i:2"}
`

func TestInjectAnswersAResourceListWithOne(t *testing.T) {
	code, out, said := injected(t, functionList, "--quiet=3s", "--min=1s")
	if code != exitOK || said != "" || !strings.Contains(out, "QUIET, value: 7s") || !strings.Contains(out, "MIN, value: 1s") || !strings.Contains(out, "image: i:2\n") {
		t.Errorf("exit %d, %q\n%s", code, said, out)
	}
	if !strings.HasPrefix(out, "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- ") || !strings.HasSuffix(out, functionList[strings.Index(functionList, "functionConfig"):]) {
		t.Errorf("not the list it was:\n%s", out)
	}
	for _, c := range []struct{ old, wrong, said string }{
		{"quiet: 7s", "quiet: seven", `functionConfig, data.quiet "seven": write a whole number above 0`},
		{"quiet: 7s", "quite: 7s", `functionConfig, data.quite "7s": there is no such option; there are image quiet min`},
		{"kind: ConfigMap", "kind: Secret", `functionConfig is of kind "Secret": write a ConfigMap`},
	} {
		code, out, said := injected(t, strings.Replace(functionList, c.old, c.wrong, 1))
		if code != exitFailed || !strings.Contains(said, c.said) || strings.Contains(out, "kind: Pod") ||
			!strings.Contains(out, "kind: ResourceList\nitems: []\nresults:\n") || !strings.Contains(out, "severity: error\n") {
			t.Errorf("%s: exit %d, %q\n%s", c.wrong, code, said, out)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestInjectSaysThatItCouldNotWrite(t *testing.T) {
	var said bytes.Buffer
	if code := runInject(nil, strings.NewReader(plainPod), fullDisk{}, &said); code != exitFailed || !strings.Contains(said.String(), "disk full") {
		t.Errorf("exit %d, %q", code, said.String())
	}
}
