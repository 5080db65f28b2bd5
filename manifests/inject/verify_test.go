package inject

import (
	"bytes"
	"strings"
	"testing"
)

// Each line of a new stream matters: without it, or twice, it says something else than intended, or is no YAML.
func TestVerifySeesEveryLineThatIsNotAsIntended(t *testing.T) {
	for name, text := range streams(t) {
		out, _, err := Stream(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		source := newSource(text)
		if err := verify(source, out, nil); err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(out, []byte("\n"))
		for i, line := range lines {
			said := strings.TrimSpace(string(line))
			if said == "" || said[0] == '#' || said == "..." || i == 0 && said == "---" {
				continue
			}
			without := bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil)
			if err := verify(source, without, nil); err == nil {
				t.Errorf("%s: line %d is gone, and not missed: %s", name, i+1, line)
			}
			if strings.Contains(said, ": ") && said[0] != '-' {
				twice := bytes.Join(append(append([][]byte{}, lines[:i+1]...), lines[i:]...), nil)
				if err := verify(source, twice, nil); err == nil {
					t.Errorf("%s: line %d is there twice: %s", name, i+1, line)
				}
			}
		}
		if err := verify(source, append(bytes.Clone(out), "\n---\na: b\n"...), nil); err == nil {
			t.Errorf("%s: a document too many is not seen", name)
		}
	}
}

// The parser counts characters, and the text is bytes.
func TestOffsetFindsTheParsersColumns(t *testing.T) {
	var long strings.Builder
	for i := range 3 * stride {
		long.WriteString([]string{"a", "ä", "日", "\U0001f986"}[i%4])
	}
	for _, text := range []string{"", "a", "\n", "ab\r\ncd\n\u0085x\u2028y\rz\n", "\ufeffa\nb", long.String() + "\n" + long.String(), long.String()[:stride]} {
		s := newSource([]byte(text))
		line, column := 1, 1
		rest := strings.TrimPrefix(text, "\ufeff")
		for i, r := range rest {
			want := len(text) - len(rest) + i
			if got := s.offset(line, column); got != want {
				t.Fatalf("%.20q %d:%d is at %d, not %d", text, line, column, got, want)
			}
			column++
			if isBreak(r) && !strings.HasPrefix(rest[i:], "\r\n") {
				line, column = line+1, 1
			}
		}
		if got := s.offset(line, column); got != len(text) {
			t.Errorf("%.20q: the end is at %d, not %d", text, got, len(text))
		}
		for _, place := range [][2]int{{0, 1}, {1, 0}, {line + 1, 1}, {line, column + 1}} {
			if got := s.offset(place[0], place[1]); got != -1 {
				t.Errorf("%.20q: %v is at %d", text, place, got)
			}
		}
	}
}
