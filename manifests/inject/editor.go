package inject

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// editor makes each change twice: in the tree, which then says what is intended, and in the text.
type editor struct {
	source *source
	edits  []edit
}

// errPlace: something stands between a node and its text that the parser's position does not tell, as an anchor or a tag.
var errPlace = errors.New("inject cannot find its place in the text: write it without anchor, tag or explicit key")

func (e *editor) insert(at int, text string) { e.edits = append(e.edits, edit{at: at, text: text}) }

// at is a node's offset, if one of the tokens stands there.
func (e *editor) at(n *yaml.Node, tokens ...string) (int, error) {
	at := e.source.offset(n.Line, n.Column)
	if at < 0 || !slices.ContainsFunc(tokens, func(t string) bool { return bytes.HasPrefix(e.source.text[at:], []byte(t)) }) {
		return 0, errPlace
	}
	return at, nil
}

// addPair adds a key and its value to a mapping: before the key at i of its content, which is also after the value at i-1;
// in a flow mapping as the first.
func (e *editor) addPair(m *yaml.Node, i int, key string, value *yaml.Node, shape shape) error {
	if m.Style&yaml.FlowStyle != 0 || len(m.Content) == 0 {
		added := mapping(yaml.FlowStyle, str(key), value)
		if err := e.intoFlow(m, added, isJSON(m)); err != nil {
			return err
		}
		m.Content = slices.Insert(m.Content, 0, added.Content...)
		return nil
	}
	lines, err := shape.pair(key, value)
	if err != nil {
		return err
	}
	i = min(i, len(m.Content))
	column := m.Content[0].Column
	if end := e.lineEnd(valueBefore(m, i)); end >= 0 {
		e.insert(end, e.source.eol+strings.Repeat(" ", column-1)+e.source.lay(lines, column))
	} else {
		i = min(i, len(m.Content)-2)
		at, err := e.before(m.Content[i], valueBefore(m, i))
		if err != nil {
			return err
		}
		e.insert(at, e.source.lay(append(lines, ""), column))
	}
	m.Content = slices.Insert(m.Content, i, str(key), value)
	return nil
}

// valueBefore is the value before the key at i, if there is one.
func valueBefore(m *yaml.Node, i int) *yaml.Node {
	if i == 0 {
		return nil
	}
	return m.Content[i-1]
}

// lineEnd is the end of the line of a scalar that ends on it for sure, else -1.
func (e *editor) lineEnd(n *yaml.Node) int {
	if n == nil || n.Kind != yaml.ScalarNode || n.Value == "" || n.Anchor != "" {
		return -1
	}
	text := n.Value
	switch n.Style {
	case 0:
	case yaml.DoubleQuotedStyle:
		text = `"` + text + `"`
	case yaml.SingleQuotedStyle:
		text = `'` + text + `'`
	default:
		return -1
	}
	if at, err := e.at(n, text); err == nil && !strings.ContainsFunc(text, isBreak) {
		return e.source.lineEnd(at)
	}
	return -1
}

// before is where to insert something that comes before a token: above the comments right above it on its column.
// prior is what the document says before it, beside its parents' keys: a quoted scalar of several lines may have a line in
// it that only looks like a comment. No other scalar has one on this column.
func (e *editor) before(token, prior *yaml.Node) (int, error) {
	at := e.source.offset(token.Line, token.Column)
	if at < 0 {
		return 0, errPlace
	}
	for prior != nil && len(prior.Content) > 0 {
		prior = prior.Content[len(prior.Content)-1]
	}
	indent := strings.Repeat(" ", token.Column-1)
	if e.source.blanks(token.Line) != indent { // something else stands before it on its line
		return at, nil
	}
	if prior != nil && prior.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 && e.lineEnd(prior) < 0 {
		return at, nil
	}
	for line := token.Line - 1; line > 0 && e.source.blanks(line) == indent; line-- {
		above := e.source.offset(line, token.Column)
		if !bytes.HasPrefix(e.source.text[above:], []byte("#")) {
			break
		}
		at = above
	}
	return at, nil
}

// prepend makes an item the first of a sequence that is not empty. near is a mapping that shows how flow is written here.
func (e *editor) prepend(s, item, near *yaml.Node, shape shape) error {
	added := sequence(0, item)
	if s.Style&yaml.FlowStyle != 0 {
		if err := e.intoFlow(s, added, isJSON(near)); err != nil {
			return err
		}
	} else {
		if _, err := e.at(s, "-"); err != nil {
			return err
		}
		at, err := e.before(s, nil)
		if err != nil {
			return err
		}
		lines, err := shape.block(added)
		if err != nil {
			return err
		}
		e.insert(at, e.source.lay(append(lines, ""), s.Column))
	}
	s.Content = slices.Insert(s.Content, 0, item)
	return nil
}

// setValue puts a value in the place of the empty one of the key at i.
func (e *editor) setValue(m *yaml.Node, i int, value *yaml.Node, shape shape) error {
	old := m.Content[i+1]
	at, length, err := e.empty(old)
	if err != nil {
		return err
	}
	if m.Style&yaml.FlowStyle != 0 {
		text, err := flow(value, isJSON(m))
		if err != nil {
			return err
		}
		if length == 0 {
			text = " " + text
		}
		e.edits = append(e.edits, edit{at, length, text})
	} else {
		lines, err := shape.under(value)
		if err != nil {
			return err
		}
		column := m.Content[0].Column
		kept := bytes.TrimRight(e.source.text[:at], " ")
		e.edits = append(e.edits, edit{at: len(kept), drop: at + length - len(kept)})
		e.insert(e.source.lineEnd(at+length), e.source.eol+strings.Repeat(" ", column-1)+e.source.lay(lines, column))
	}
	m.Content[i+1] = value
	return nil
}

// empty is where an empty value is written, and how long it is: 0 where nothing is written.
func (e *editor) empty(n *yaml.Node) (at, length int, err error) {
	if n.Kind == yaml.ScalarNode && n.Value == "" {
		// Its position is the end of its colon, or in a flow mapping the comma or bracket that follows.
		before := bytes.TrimRight(e.source.text[:max(e.source.offset(n.Line, n.Column), 0)], " \t\r\n")
		if !bytes.HasSuffix(before, []byte(":")) || n.Anchor != "" {
			return 0, 0, errPlace
		}
		return len(before), 0, nil
	}
	tokens := []string{"[", "{"}
	if n.Kind == yaml.ScalarNode {
		tokens = []string{n.Value}
	}
	if at, err = e.at(n, tokens...); err != nil {
		return 0, 0, err
	}
	if n.Kind == yaml.ScalarNode {
		return at, len(n.Value), nil
	}
	end := bytes.IndexAny(e.source.text[at:], "]}")
	if end < 0 || len(bytes.Trim(e.source.text[at+1:at+end], " ")) > 0 {
		return 0, 0, errors.New("something is written within its empty brackets: remove them")
	}
	return at, end + 1, nil
}
