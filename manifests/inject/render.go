package inject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// shape is how a workload is indented.
type shape struct {
	step int // from a key to the keys below it
	dash int // from a key to the dashes below it; 0: they stand on its column
}

// shapeOf reads it off a pod template.
func shapeOf(template, spec *yaml.Node) shape {
	s := shape{2, 2}
	if spec.Kind != yaml.MappingNode || spec.Style&yaml.FlowStyle != 0 {
		return s
	}
	key := index(template, "spec")
	if key >= 0 && spec.Content[0].Column > template.Content[key].Column {
		s.step = spec.Content[0].Column - template.Content[key].Column
	}
	s.dash = s.step
	if i := index(spec, "containers"); i >= 0 && spec.Content[i+1].Style&yaml.FlowStyle == 0 {
		if dash := spec.Content[i+1].Column - spec.Content[i].Column; dash >= 0 && spec.Content[i+1].Line > spec.Content[i].Line {
			s.dash = dash
		}
	}
	return s
}

// block renders a node in lines, the first column being 1.
func (s shape) block(n *yaml.Node) ([]string, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(min(max(s.step, 2), 8))
	if s.dash == 0 {
		e.SetIndent(2) // with compact sequences the encoder would move dashes two columns to the left only
		e.CompactSeqIndent()
	}
	if err := e.Encode(n); err != nil {
		return nil, fmt.Errorf("inject: %w", err)
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"), nil
}

// under renders what stands below a key, the key's column being 1.
func (s shape) under(value *yaml.Node) ([]string, error) {
	lines, err := s.block(value)
	indent := s.step
	if value.Kind == yaml.SequenceNode {
		indent = s.dash
	}
	for i := range lines {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	return lines, err
}

func (s shape) pair(key string, value *yaml.Node) ([]string, error) {
	lines, err := s.under(value)
	return append([]string{key + ":"}, lines...), err
}

// flow renders a node in one line.
func flow(n *yaml.Node, asJSON bool) (string, error) {
	if asJSON {
		return toJSON(n), nil
	}
	n = clone(n)
	n.Style = yaml.FlowStyle
	text, err := yaml.Marshal(n)
	return strings.TrimSuffix(string(text), "\n"), err
}

// isJSON tells whether a flow mapping is written as JSON has it.
func isJSON(m *yaml.Node) bool {
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Style != yaml.DoubleQuotedStyle {
			return false
		}
	}
	return len(m.Content) > 0
}

func toJSON(n *yaml.Node) string {
	var parts []string
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			parts = append(parts, toJSON(item))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			parts = append(parts, quoted(n.Content[i].Value)+":"+toJSON(n.Content[i+1]))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	if n.ShortTag() == "!!str" {
		return quoted(n.Value)
	}
	return n.Value
}

func quoted(s string) string {
	text, _ := json.Marshal(s) // of a string it always works
	return string(text)
}

// intoFlow inserts the one element of added as the first of a flow mapping or sequence: on a line of its own where that is
// how the elements stand.
func (e *editor) intoFlow(c, added *yaml.Node, asJSON bool) error {
	at, err := e.at(c, "{", "[")
	if err != nil {
		return err
	}
	at++
	text, err := flow(added, asJSON)
	if err != nil {
		return err
	}
	if len(c.Content) == 0 {
		e.insert(at, text[1:len(text)-1])
		return nil
	}
	prefix := e.source.blanks(c.Content[0].Line)
	if c.Content[0].Line == c.Line {
		space := ""
		if !asJSON {
			space = " "
		}
		if bytes.HasPrefix(e.source.text[at:], []byte(" ")) {
			e.insert(at, " "+text[1:len(text)-1]+",")
		} else {
			e.insert(at, text[1:len(text)-1]+","+space)
		}
		return nil
	}
	if asJSON {
		text = indented(text, e.source.blanks(c.Line), prefix, e.source.eol)
	}
	e.insert(at, e.source.eol+prefix+strings.TrimSpace(text[1:len(text)-1])+",")
	return nil
}

// indented lays JSON out below a line that begins with outer, its elements beginning with inner.
func indented(text, outer, inner, eol string) string {
	unit, nested := strings.CutPrefix(inner, outer)
	if !nested || unit == "" {
		unit = "  "
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), outer, unit); err != nil {
		return text
	}
	return strings.ReplaceAll(b.String(), "\n", eol)
}
