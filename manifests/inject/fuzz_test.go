package inject

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzInject: whatever the bytes are, what comes out is YAML that says the same but for what was added; nothing else of the
// text has changed; and it is not injected twice.
func FuzzInject(f *testing.F) {
	for _, text := range streams(f) {
		for _, doc := range bytes.Split(text, []byte("\n---\n")) { // short seeds are changed faster
			f.Add(doc)
		}
	}
	for _, spec := range []string{
		"{containers: [{name: a}]}", "{containers: [{lifecycle: , name: a}], initContainers}", `{"containers":[{"name":"a"}]}`,
		"{containers: [{? name : a, lifecycle: ~}], initContainers: !x [b]}", "\n  initContainers:\n  containers:\n  - name: a\n",
		"\n  ? containers\n  : - ? name\n      : a\n    - b: \"\n  # c\"\n      c: d\n", "\n  a: 'b\n  # c'\n  containers:\n  -\n    name: a",
		" &x\n  initContainers: []\n  containers: [*x, {name: a}]", "\n  <<: {containers: [{name: a}]}\n  initContainers:\r  - a",
	} {
		f.Add([]byte("apiVersion: v1\nkind: Pod\nspec: " + spec + "\n---\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out, _, err := Stream(text, nil)
		if err != nil {
			if len(out) > 0 && !isResourceList(text) {
				t.Errorf("%v, and yet %q", err, out)
			}
			return
		}
		checkInjected(t, text, out)
	})
}

// checkInjected judges what a text has become.
func checkInjected(t *testing.T, text, out []byte) {
	t.Helper()
	again, _, err := Stream(out, nil)
	if err != nil || !bytes.Equal(again, out) {
		t.Errorf("%q\nbecomes %q\nand that %q, %v", text, out, again, err)
	}
	checkEdits(t, text, out)
	if before, after := bare(t, text), bare(t, out); !reflect.DeepEqual(before, after) {
		t.Errorf("%q\nbecomes %q\nwhich says something else than was added:\n%v\n%v", text, out, before, after)
	}
}

// checkEdits: text is only inserted, but in the place of an empty value.
func checkEdits(t *testing.T, text, out []byte) {
	t.Helper()
	w, err := newWork(newSource(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := documents(text, func(doc *yaml.Node) error { w.document(doc); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.edits {
		switch strings.Join(strings.Fields(string(text[e.at:e.at+e.drop])), "") {
		case "", "null", "Null", "NULL", "~", "[]", "{}":
		default:
			t.Errorf("%q drops %q", text, text[e.at:e.at+e.drop])
		}
	}
	// What is dropped aside, the one text is within the other.
	kept, rest := (&source{text: text}).apply(drops(w.edits)), out
	for _, c := range kept {
		i := bytes.IndexByte(rest, c)
		if i < 0 {
			t.Fatalf("%q is not within %q", kept, out)
		}
		rest = rest[i+1:]
	}
}

func drops(edits []edit) []edit {
	var all []edit
	for _, e := range edits {
		all = append(all, edit{at: e.at, drop: e.drop})
	}
	return all
}

// bare is what a stream says, without sidecars and hold hooks, and without what is empty where they would be.
func bare(t *testing.T, text []byte) (all []any) {
	t.Helper()
	next := decoder(text)
	for {
		doc, err := next()
		if err != nil {
			return all
		}
		all = append(all, strip(doc))
	}
}

// strip is a tree as lists, in the order of the text; mappings are lists of pairs, so that no alias is followed, and what
// only Kubernetes would refuse is compared too.
func strip(n *yaml.Node) any {
	if n.Kind != yaml.MappingNode {
		list := []any{n.Kind, n.ShortTag(), n.Value, n.Anchor}
		for _, child := range n.Content {
			list = append(list, strip(child))
		}
		return list
	}
	list := []any{n.Kind, n.Anchor}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Value == "initContainers" && value.Kind == yaml.SequenceNode && len(value.Content) > 0 && name(value.Content[0]) == "lameduck" {
			value = &yaml.Node{Kind: value.Kind, Tag: value.Tag, Anchor: value.Anchor, Content: value.Content[1:]}
		}
		said := strip(value)
		empty := value.Kind != yaml.AliasNode && len(value.Content) == 0 && (value.Kind != yaml.ScalarNode || value.ShortTag() == "!!null")
		switch key.Value {
		case "initContainers", "lifecycle", "preStop":
			if empty || key.Value == "preStop" && isHoldHook(value) || key.Value == "lifecycle" && len(said.([]any)) == 2 {
				continue
			}
		}
		list = append(list, strip(key), said)
	}
	return list
}

func name(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		if i := index(n, "name"); i >= 0 {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// isHoldHook tells a hook of /hold alone.
func isHoldHook(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 || n.Content[0].Value != "httpGet" {
		return false
	}
	get := n.Content[1]
	i := index(get, "path")
	return i >= 0 && get.Content[i+1].Value == "/hold"
}
