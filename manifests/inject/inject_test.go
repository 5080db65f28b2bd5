package inject

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// streams are the inputs of testdata, by name.
func streams(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.*")
	if err != nil || len(paths) == 0 {
		t.Fatal("no test data", err)
	}
	all := map[string][]byte{}
	for _, path := range paths {
		all[filepath.Base(path)] = read(t, path)
	}
	return all
}

// Each golden file is the new stream, and after it what was said.
func TestStreamsGiveWhatTheyAlwaysGave(t *testing.T) {
	for name, text := range streams(t) {
		t.Run(name, func(t *testing.T) {
			out, remarks, err := Stream(text, map[string]string{"image": "registry.example/lameduck:1"})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range remarks {
				out = fmt.Appendf(out, "# said of line %d: %s\n", r.Line, r)
			}
			golden := filepath.Join("testdata/golden", name)
			if *update {
				if err := os.WriteFile(golden, out, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := read(t, golden); !bytes.Equal(out, want) {
				t.Errorf("%s differs (go test ./manifests/inject -update writes it anew):\n%s", golden, out)
			}
		})
	}
}

// Whatever the ends of the lines are, and whether there is one at the very end.
func TestLineEndsAreKept(t *testing.T) {
	for name, text := range streams(t) {
		want, _, err := Stream(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		crlf := bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
		got, _, err := Stream(crlf, nil)
		if err != nil || !bytes.Equal(got, bytes.ReplaceAll(want, []byte("\n"), []byte("\r\n"))) {
			t.Errorf("%s with CRLF: %v\n%q", name, err, got)
		}
		marked := append([]byte("\ufeff"), text...)
		got, _, err = Stream(marked, nil)
		if err != nil || !bytes.Equal(got, append([]byte("\ufeff"), want...)) {
			t.Errorf("%s with a byte order mark: %v\n%q", name, err, got)
		}
		if bytes.HasSuffix(text, []byte("...\n")) {
			continue
		}
		got, _, err = Stream(bytes.TrimRight(text, "\n"), nil)
		if err != nil || !bytes.Equal(got, bytes.TrimRight(want, "\n")) {
			t.Errorf("%s without a last line end: %v\n%s", name, err, got)
		}
	}
}

func TestWhatIsInjectedIsLeftAlone(t *testing.T) {
	for name, text := range streams(t) {
		once, _, err := Stream(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		twice, _, err := Stream(once, map[string]string{"image": "another", "quiet": "9s"})
		if err != nil || !bytes.Equal(once, twice) || bytes.Equal(once, text) {
			t.Errorf("%s: %v\n%s", name, err, twice)
		}
	}
}

func TestOtherStreamsPassUntouched(t *testing.T) {
	for _, text := range []string{
		"", "\n", "# nothing\n", "---", "---\n---\n", "--- # a\n\n--- # b\n...\n# c", "plain", "- a\n- b\n", "null",
		"kind: Deployment\nspec: {template: {spec: {containers: [{name: a}]}}}", // of no group
		"kind: ConfigMap\napiVersion: v1\ndata: {a: '{{ .x }}', b: \"{{ x }}\"}\n",
		"items: [{apiVersion: v1, kind: Pod, spec: {containers: [{name: a}]}}]\n", // of no kind
		`{"kind":"List","apiVersion":"v1","items":[7,null,[]]}`,
		"x: &a {metadata: {labels: {lameduck/inject: disabled}}}\ny: &b {}\napiVersion: v1\nkind: Pod\n<<: [*b, *a]\nspec: {containers: [{name: a}]}\n",
		"x: &a {<<: *a}\napiVersion: v1\nkind: Pod\nspec: {<<: *a, containers: [{name: lameduck}]}\n", // a merge of itself
		"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {template: {spec: {containers: [{name: a}]}}}\n",
		pod("containers: [{name: lameduck}, {name: a}]"),
		pod("initContainers: [{name: lameduck}], containers: [{name: a}]"),
	} {
		out, remarks, err := Stream([]byte(text), nil)
		if err != nil || string(out) != text || len(remarks) > 0 {
			t.Errorf("%q: %q, %v, %v", text, out, remarks, err)
		}
	}
}

func pod(spec string) string { return "apiVersion: v1\nkind: Pod\nspec: {" + spec + "}\n" }

// What cannot be injected: nothing is returned, and the reason names the line and the cure.
func TestWhatCannotBeInjectedIsToldWithItsLine(t *testing.T) {
	good := "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a}]}\n---\n"
	head := good + "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
	for _, c := range []struct{ text, said string }{
		{head + "x: &x\n  containers: [{name: a}]\nspec:\n  template:\n    spec: *x\n", "line 12: Deployment web: its pod spec is another object's too"},
		{head + "x: &x {name: a}\nspec:\n  template:\n    spec:\n      containers:\n        - *x\n", "line 13: Deployment web: container \"a\": it is another's too"},
		{head + "x: &x {containers: [{name: a}]}\nspec:\n  template:\n    spec:\n      <<: *x\n", "it is another's too"},
		{head + "spec:\n  template:\n    spec:\n      containers:\n        - &x\n          name: a\n      initContainers: [{<<: *x, name: b}]\n", "line 12: Deployment web: container \"a\": it is another's too"},
		{head + "spec:\n  template:\n    spec:\n      initContainers: &x [{name: b}]\n      containers: [{name: a}]\n", "without anchor, tag"},
		{head + "spec:\n  template:\n    spec:\n      initContainers: !!seq\n        - name: b\n      containers: [{name: a}]\n", "without anchor, tag"},
		{head + "spec:\n  template:\n    spec:\n      containers: [{name: a}]\n      containers: [{name: b}]\n", "line 12: Deployment web: the key containers stands twice"},
		{head + "spec: {template: {spec: {terminationGracePeriodSeconds: '60', containers: [{name: a}]}}}\n", "terminationGracePeriodSeconds is no whole number"},
		{head + "spec: {template: {spec: {terminationGracePeriodSeconds: 9223372037, containers: [{name: a}]}}}\n", "terminationGracePeriodSeconds is no whole number"},
		{head + "spec: {template: {spec: {hostNetwork: 7, containers: [{name: a}]}}}\n", "hostNetwork is neither"},
		{head + "spec: {template: {spec: {initContainers: 7, containers: [{name: a}]}}}\n", "initContainers are no list"},
		{head + "spec: {template: {spec: {containers: [7]}}}\n", "it is no mapping"},
		{head + "spec: {template: {spec: {containers: [{name: a, lifecycle: [7]}]}}}\n", "lifecycle is no mapping"},
		{head + "spec: {template: {spec: {containers: [{name: a, lifecycle: { # not yet\n }}]}}}\n", "within its empty brackets"},
		{head + "spec:\n  ? template\n  : spec:\n      containers:\n        - ? name\n          : a\n", "written in a way that inject cannot follow"},
		{head + "x: &x lifecycle\nspec: {template: {spec: {containers: [{name: a, *x : [7]}]}}}\n", "lifecycle is no mapping"},
		{head + "x: &x {lifecycle: {}}\nspec: {template: {spec: {containers: [{<<: [*x], name: a}]}}}\n", "it is another's too"},
		{head + "x: &x {initContainers: []}\nspec: {template: {spec: {<<: *x, containers: [{name: a}]}}}\n", "initContainers are another object's too"},
		{head + "spec: {template: {spec: {<<: {initContainers: []}, containers: [{name: a}]}}}\n", "initContainers are another object's too"},
		{head + "spec: {template: {spec: {containers: [{<<: {lifecycle: {}}, name: a}]}}}\n", "it is another's too"},
		{head + "spec:\n  template:\n    spec:\n      containers: [{name: a}]\n      initContainers: &x\n", "without anchor, tag"},
		{head + "spec:\n  template:\n    spec:\n      containers:\n        - name: a\n          lifecycle: !!null\n", "inject cannot"},
		{head + "spec: {replicas: {{ .Values.replicas }}}\n", "line 8: {{ is a template's: render it first"},
		{head + "spec:\n  {{- if .x }}\n  a: 1\n  {{- end }}\n", "render the template first"},
		{good + "a: [1,\n", "it is no YAML: line"},
		{"\xff\xfea\x00", "UTF-16"},
		{"a: \xff", "it is no YAML"},
	} {
		out, _, err := Stream([]byte(c.text), nil)
		if told := (*Error)(nil); !errors.As(err, &told) || !strings.Contains(err.Error(), c.said) || len(out) > 0 {
			t.Errorf("%q:\n%v\nwithout %q; %q", c.text[min(len(good), len(c.text)):], err, c.said, out)
		}
	}
}

func TestEveryFaultOfAStreamIsTold(t *testing.T) {
	bad := "apiVersion: v1\nkind: Pod\nspec: {containers: [7, 8]}\n"
	_, _, err := Stream([]byte(bad+"---\n"+bad), nil)
	if told := (*Error)(nil); !errors.As(err, &told) || len(told.Remarks) != 4 || told.Remarks[3].Line != 7 {
		t.Errorf("%v", err)
	}
}

func TestAFaultIsToldOfItsOwnObjectOnly(t *testing.T) {
	_, _, err := Stream([]byte("apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  spec: {a: , a: , containers: [{name: a, name: b}]}\n- apiVersion: v1\n  kind: Pod\n  spec: {containers: [{name: a}]}\n"), nil)
	if told := (*Error)(nil); !errors.As(err, &told) || len(told.Remarks) != 1 || told.Remarks[0].Line != 6 {
		t.Errorf("%v", err)
	}
}

// What is added goes where a person would write it, and a comment stays with what it is above.
func TestWhereItIsWritten(t *testing.T) {
	head := "apiVersion: v1\nkind: Pod\n"
	sidecar := func(pad, inner string) string {
		return pad + "- name: lameduck\n" + pad + inner + "image: lameduck:dev\n"
	}
	hook := func(pad string) string {
		return "\n" + pad + "lifecycle:\n" + pad + "  preStop:\n" + pad + "    httpGet: {path: /hold, port: 8420}"
	}
	for name, c := range map[string]struct{ text, want string }{
		"above its comments":     {"spec:\n  # two\n  # lines\n  containers: [{name: lame}]\n", "spec:\n  initContainers:\n" + sidecar("    ", "  ")},
		"below other comments":   {"spec:\n  # two\n\n  # lines\n  containers: [{name: lame}]\n", "spec:\n  # two\n\n  initContainers:\n"},
		"a remark on its column": {"spec: # here\n      containers: [{name: lame}]\n", "spec: # here\n      initContainers:\n" + sidecar("            ", "  ")},
		"a text like a comment":  {"spec:\n  a: 'b\n  # c'\n  containers: [{name: lame}]\n", "  # c'\n  initContainers:\n"},
		"dashes on the column":   {"spec:\n    containers:\n    - name: a\n", "spec:\n    initContainers:\n" + sidecar("    ", "  ")},
		"first of the list":      {"spec:\n  containers: [{name: lame}]\n  initContainers:\n  # why\n  - name: b\n", "  initContainers:\n" + sidecar("  ", "  ")},
		"after the image":        {"spec:\n  containers:\n  - image: b # so\n    name: a # and so\n", "name: a # and so" + hook("    ") + "\n"},
		"at the end":             {"spec:\n  containers:\n  - name: a", "- name: a" + hook("    ")},
		"before what is long":    {"spec:\n  containers:\n  - name: >-\n      a\n    # ports\n    ports: []\n", "      a" + hook("    ") + "\n    # ports\n    ports: []\n"},
		"before all of it":       {"spec:\n  containers:\n    # one\n  - name: >-\n      a\n", "    # one\n  - lifecycle:\n      preStop:\n        httpGet: {path: /hold, port: 8420}\n    name: >-\n"},
		"no break that shows":    {"spec:\n  containers:\n  - name: a\n    image: \"a\u2028b\"\n", "\n    lifecycle:\n"},
	} {
		out, _, err := Stream([]byte(head+c.text), nil)
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v:\n%s\nhas no\n%s", name, err, out, c.want)
		}
	}
}

// A default is for many pods, and not all of them have each container; an annotation is for one.
func TestOnlyAnAnnotationNamesAContainerThatIsNotThere(t *testing.T) {
	for text, want := range map[string]int{
		pod("containers: [{name: a}]"): 0,
		pod("containers: [{name: a}]}\nmetadata: {annotations: {lameduck/hold: none}"):     0,
		pod("containers: [{name: a}]}\nmetadata: {annotations: {lameduck/hold: 'a,b, c'}"): 2,
	} {
		if _, remarks, err := Stream([]byte(text), map[string]string{"hold": "other"}); err != nil || len(remarks) != want {
			t.Errorf("%s: %v, %v", text, remarks, err)
		}
	}
}

func TestItemsOfATypedListAreOfItsKind(t *testing.T) {
	out, _, err := Stream([]byte("apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- spec: {template: {spec: {containers: [{name: a}]}}}\n"), nil)
	if err != nil || !strings.Contains(string(out), "- spec: {template: {spec: {initContainers: [{name: lameduck, ") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestTooLongAStreamIsRefused(t *testing.T) {
	if _, _, err := Stream(make([]byte, MaxInput+1), nil); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Error(err)
	}
}
