// Package inject adds the native sidecar and the hold hook to the workloads of a YAML stream.
//
// The text is edited by insertion, at places that a YAML parser has found: comments, order, blank lines, quoting and line
// ends of what is not added stay byte for byte. Only an empty value that something is added to (null, ~, [], {}) is
// replaced. In a flow mapping or sequence, JSON too, a flow mapping is inserted. The result is parsed again and compared
// with what was intended, so a misplaced insertion is an error, and never YAML that says something else.
package inject

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxInput is the longest stream that is taken, in bytes. A parsed document takes many times its length.
const MaxInput = 64 << 20

// Remark is something to be told about a place in the stream.
type Remark struct {
	Line   int    // from 1; 0: the stream as a whole
	Object string // "Deployment web", or empty
	Text   string
}

func (r Remark) String() string {
	if r.Object == "" {
		return r.Text
	}
	return r.Object + ": " + r.Text
}

// Error tells everything for which a stream cannot be injected.
type Error struct{ Remarks []Remark }

func (e *Error) Error() string {
	lines := make([]string, len(e.Remarks))
	for i, r := range e.Remarks {
		lines[i] = r.String()
		if r.Line > 0 {
			lines[i] = fmt.Sprintf("line %d: %s", r.Line, r)
		}
	}
	return "inject: " + strings.Join(lines, "; ")
}

// Stream injects every workload of a YAML stream that is not labelled lameduck/inject: disabled, and returns the new stream
// and what is to be told of it. defaults are the options by name (see Options) for pods whose annotations say nothing else.
//
// A stream that is a ResourceList takes its options from the functionConfig too. Where it cannot be injected, the
// ResourceList that says so is returned beside the error; of any other stream nothing is.
//
// The error is an *Error but for what is a fault of this package.
func Stream(text []byte, defaults map[string]string) ([]byte, []Remark, error) {
	out, remarks, err := stream(text, defaults)
	if err != nil && isResourceList(text) {
		return failedList(err), remarks, err
	}
	return out, remarks, err
}

func stream(text []byte, defaults map[string]string) ([]byte, []Remark, error) {
	if len(text) > MaxInput {
		return nil, nil, whole("it is longer than %d MiB: inject its parts", MaxInput>>20)
	}
	if len(text) > 1 && (text[0] == 0xFF && text[1] == 0xFE || text[0] == 0xFE && text[1] == 0xFF) {
		return nil, nil, whole("it is UTF-16: write it as UTF-8")
	}
	source := newSource(text)
	w, err := newWork(source, defaults)
	if err != nil {
		return nil, nil, err
	}
	err = documents(text, func(doc *yaml.Node) error {
		w.document(doc)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if len(w.faults) > 0 {
		return nil, w.remarks, &Error{w.faults}
	}
	if len(w.edits) == 0 {
		return text, w.remarks, nil
	}
	out := source.apply(w.edits)
	if err := verify(source, out, defaults); err != nil {
		return nil, w.remarks, err
	}
	return out, w.remarks, nil
}

func whole(format string, args ...any) error {
	return &Error{[]Remark{{Text: fmt.Sprintf(format, args...)}}}
}

// documents calls each with one document after the other; only one is in memory at a time.
func documents(text []byte, each func(doc *yaml.Node) error) error {
	next := decoder(text)
	for {
		doc, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return unreadable(text, err)
		}
		if err := each(doc); err != nil {
			return err
		}
	}
}

// unreadable says why a stream is no YAML.
func unreadable(text []byte, err error) error {
	said := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.Contains(string(text), "{{") {
		return whole("it is no YAML (%s), but has {{ in it: render the template first, for example helm template CHART | lameduck inject", said)
	}
	return whole("it is no YAML: %s", said)
}
