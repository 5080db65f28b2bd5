package inject

import (
	"bytes"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// source is a stream's text, in which the parser's lines and columns are found again. Both count from 1, a column is a
// character, and a line may end with any of YAML 1.1's breaks.
type source struct {
	text  []byte
	lines []int // the number of each line's first character
	marks []int // the offset of every stride-th character
	count int   // of characters
	eol   string
}

// stride keeps a look-up short in a line of many megabytes, as JSON can be.
const stride = 1024

func newSource(text []byte) *source {
	s := &source{text: text, eol: "\n", lines: []int{0}}
	start := 0
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		start = len("\ufeff") // the parser's first column is after it
	}
	for at, n := start, 0; at < len(text); n++ {
		if n%stride == 0 {
			s.marks = append(s.marks, at)
		}
		r, size := utf8.DecodeRune(text[at:])
		at, s.count = at+size, n+1
		if isCRLF := r == '\r' && at < len(text) && text[at] == '\n'; isBreak(r) && !isCRLF {
			s.lines = append(s.lines, n+1)
		}
	}
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		s.eol = "\r\n"
	}
	return s
}

func isBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

// offset is where a line's column is; -1 where the text has no such place.
func (s *source) offset(line, column int) int {
	if line < 1 || line > len(s.lines) || column < 1 {
		return -1
	}
	n := s.lines[line-1] + column - 1
	switch {
	case n > s.count:
		return -1
	case n == s.count:
		return len(s.text)
	}
	at := s.marks[n/stride]
	for range n % stride {
		_, size := utf8.DecodeRune(s.text[at:])
		at += size
	}
	return at
}

// lineEnd is the offset of the break that ends the line of the given offset, or of the text's end.
func (s *source) lineEnd(offset int) int {
	if i := bytes.IndexFunc(s.text[offset:], isBreak); i >= 0 {
		return offset + i
	}
	return len(s.text)
}

// blanks are the spaces and tabs that a line begins with.
func (s *source) blanks(line int) string {
	rest := s.text[s.offset(line, 1):]
	return string(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))])
}

// edit puts text at an offset, in the place of as many bytes as it drops.
type edit struct {
	at, drop int
	text     string
}

func (s *source) apply(edits []edit) []byte {
	edits = slices.Clone(edits)
	sort.SliceStable(edits, func(i, j int) bool { return edits[i].at < edits[j].at })
	var b bytes.Buffer
	last := 0
	for _, e := range edits {
		b.Write(s.text[last:e.at])
		b.WriteString(e.text)
		last = e.at + e.drop
	}
	b.Write(s.text[last:])
	return b.Bytes()
}

// lay joins lines, all but the first of them moved to a column.
func (s *source) lay(lines []string, column int) string {
	return strings.Join(lines, s.eol+strings.Repeat(" ", column-1))
}
