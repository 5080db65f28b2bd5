package inject

import (
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// verify parses what has been made, document by document, and compares it with the trees that are intended: those of the
// source, edited once more.
func verify(s *source, out []byte, defaults map[string]string) error {
	w, err := newWork(s, defaults)
	if err != nil {
		return err
	}
	next := decoder(out)
	err = documents(s.text, func(intended *yaml.Node) error {
		w.document(intended)
		made, err := next()
		if err != nil {
			return amiss(intended, err.Error())
		}
		if line, same := equal(intended, made); !same {
			return amiss(made, fmt.Sprintf("line %d of the result says something else than intended", line))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := next(); !errors.Is(err, io.EOF) {
		return amiss(&yaml.Node{}, "the result has a document too many")
	}
	return nil
}

func amiss(doc *yaml.Node, said string) error {
	return &Error{[]Remark{{Line: doc.Line, Text: "this YAML is written in a way that inject cannot follow (" + said + "): nothing is injected"}}}
}

// equal compares what two trees say, and tells the line of the second where they differ.
func equal(a, b *yaml.Node) (line int, same bool) {
	if a.Kind != b.Kind || a.ShortTag() != b.ShortTag() || a.Value != b.Value || a.Anchor != b.Anchor || len(a.Content) != len(b.Content) {
		return b.Line, false
	}
	for i := range a.Content {
		if line, same := equal(a.Content[i], b.Content[i]); !same {
			return line, false
		}
	}
	return 0, true
}
