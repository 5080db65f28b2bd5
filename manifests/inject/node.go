package inject

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// decoder returns a function that gives one document after the other, and at the end io.EOF.
func decoder(text []byte) func() (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	return func() (*yaml.Node, error) {
		var doc yaml.Node
		err := d.Decode(&doc)
		return &doc, err
	}
}

// place is a node of a document. A shared one is reached by an alias or a merge key, or lies within what an alias refers
// to: it can be read, and not be edited for one pod alone. One that is not shared stands under its own key.
type place struct {
	node   *yaml.Node // nil: there is none
	line   int        // of the node, or of the alias that stands for it
	shared bool
}

// absent tells what Kubernetes takes for absent.
func (p place) absent() bool {
	return p.node == nil || p.node.Kind == yaml.ScalarNode && p.node.Tag == "!!null"
}

// text is a scalar's value.
func (p place) text() string {
	if p.absent() || p.node.Kind != yaml.ScalarNode {
		return ""
	}
	return p.node.Value
}

// items are a sequence's.
func (p place) items() []*yaml.Node {
	if p.node == nil || p.node.Kind != yaml.SequenceNode {
		return nil
	}
	return p.node.Content
}

// tree reads a document, and remembers the first fault of its form.
type tree struct {
	aliased map[*yaml.Node]bool // what an alias refers to
	line    int
	fault   string
}

func newTree(doc *yaml.Node) *tree {
	t := &tree{aliased: map[*yaml.Node]bool{}}
	t.survey(doc)
	return t
}

// survey looks at every node once.
func (t *tree) survey(n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		t.aliased[n.Alias] = true
	}
	for i, child := range n.Content {
		// {{ .Values.image }} is YAML: a mapping whose key is a mapping. No object of Kubernetes has such keys.
		if n.Kind == yaml.MappingNode && i%2 == 0 && child.Kind == yaml.MappingNode {
			t.fail(child, "{{ is a template's: render it first, for example helm template CHART | lameduck inject")
		}
		t.survey(child)
	}
}

func (t *tree) fail(n *yaml.Node, fault string) {
	if t.fault == "" {
		t.line, t.fault = n.Line, fault
	}
}

func (t *tree) at(n *yaml.Node, within place) place {
	if n.Kind == yaml.AliasNode {
		return place{n.Alias, n.Line, true}
	}
	return place{n, n.Line, within.shared || t.aliased[n]}
}

// get reads the value of a key, through merge keys too.
func (t *tree) get(m place, path ...string) place {
	for _, key := range path {
		m = t.find(m, key, map[*yaml.Node]bool{})
	}
	return m
}

func (t *tree) find(m place, key string, seen map[*yaml.Node]bool) (found place) {
	if m.node == nil || m.node.Kind != yaml.MappingNode || seen[m.node] {
		return place{}
	}
	seen[m.node] = true
	for i := 0; i < len(m.node.Content); i += 2 {
		if !isKey(m.node.Content[i], key) {
			continue
		}
		if found.node != nil {
			t.fail(m.node.Content[i], "the key "+key+" stands twice in one mapping: remove one of them")
		}
		found = t.at(m.node.Content[i+1], m)
	}
	for i := 0; i < len(m.node.Content) && found.node == nil; i += 2 {
		if m.node.Content[i].Tag != "!!merge" {
			continue
		}
		value := t.at(m.node.Content[i+1], m)
		value.shared = true
		found = t.find(value, key, seen)
		for _, item := range value.items() {
			if found.node == nil {
				found = t.find(t.at(item, value), key, seen)
			}
		}
	}
	return found
}

func isKey(n *yaml.Node, key string) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.ScalarNode && n.Value == key
}

// index is the place of a key in a mapping's content; -1 where it has none of its own.
func index(m *yaml.Node, key string) int {
	for i := 0; i < len(m.Content); i += 2 {
		if isKey(m.Content[i], key) {
			return i
		}
	}
	return -1
}

// clone copies what a tree says, and not where it was said.
func clone(n *yaml.Node) *yaml.Node {
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value}
	for _, child := range n.Content {
		c.Content = append(c.Content, clone(child))
	}
	return c
}

func str(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

func mapping(style yaml.Style, content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: style, Content: content}
}

func sequence(style yaml.Style, content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: style, Content: content}
}
