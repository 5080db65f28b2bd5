package demo

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// header names the table's columns.
func header(rows []Row) []string {
	return []string{
		"set-up", "app on SIGTERM", "failed of " + thousands(rows[0].Result.Load.Sent), "timeouts",
		"refused: client / lameduck's count", "p99", "slowest", "pod ended after",
	}
}

func (r Row) cells() []string {
	refused := "–"
	if counted, ok := r.counted(); ok {
		refused = fmt.Sprintf("%d / %d", r.refused(), counted)
	}
	l := r.Result.Load
	return []string{
		r.Name, r.App, strconv.Itoa(r.failed()), strconv.Itoa(r.timeouts()), refused,
		short(l.P99), short(l.Slowest), seconds(r.endedAfter()),
	}
}

// Table writes the rows as a Markdown table whose columns also line up as plain text.
func Table(w io.Writer, rows []Row) error {
	lines := [][]string{header(rows)}
	for _, r := range rows {
		lines = append(lines, r.cells())
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, line := range lines {
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < 2 {
				cell += pad
			} else {
				cell = pad + cell
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
		if n == 0 {
			for i, width := range widths {
				b.WriteString("|-" + strings.Repeat("-", width) + map[bool]string{true: "-", false: ":"}[i < 2])
			}
			b.WriteString("|\n")
		}
	}
	b.WriteString("\n" + note + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// note keeps a reader from a wrong conclusion: that row is a matter of luck.
const note = `The report's policy is a matter of luck. If a request happens to fail in the pod's last milliseconds, outlier
detection takes the pod out at once, and next to nothing is lost; else it learns nothing, because clients give up before
a connection attempt does, and about as much is lost as with nothing.`

// The marks in a README between which the table stands.
const (
	beginMark = "<!-- demo:begin -->"
	endMark   = "<!-- demo:end -->"
)

// UpdateReadme replaces the table between the marks of a file.
func UpdateReadme(path string, rows []Row) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(content, []byte(beginMark))
	_, after, ended := bytes.Cut(rest, []byte(endMark))
	if !found || !ended {
		return fmt.Errorf("%s: no lines %s and %s to put the table between", path, beginMark, endMark)
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(beginMark + "\n")
	if err := Table(&out, rows); err != nil {
		return err
	}
	out.WriteString(endMark)
	out.Write(after)
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// short is a duration with the digits that matter.
func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// thousands writes a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}
