package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lameduck/e2e/world"
)

// testRows are two rows as a run would bring them: one that lost three requests, one with lameduck that lost none.
func testRows() []Row {
	at := func(s float64) time.Duration { return deletedAt + time.Duration(s*float64(time.Second)) }
	lost := Row{Setup: Setup{Name: "nothing", App: exitsAtOnce}, Result: world.Result{
		Load: world.Outcome{Sent: 4000, P99: 5 * time.Second, Slowest: 5 * time.Second, Failures: []world.Failure{
			{At: at(0.1), Kind: "timeout"}, {At: at(0.2), Kind: "timeout"}, {At: at(2), Kind: "503"},
		}},
		Pods: []world.Pod{{Marks: []world.Mark{
			{At: at(0), What: world.MarkDeleted},
			{At: at(0.03), Container: "app", What: world.MarkTerm}, {At: at(0.031), Container: "app", What: world.MarkExit},
			{At: at(0.06), What: world.MarkGone},
		}}},
	}}
	saved := Row{Setup: Setup{Name: "lameduck, relay", App: exitsAtOnce}, Result: world.Result{
		Load: world.Outcome{Sent: 4000, P99: 1200 * time.Microsecond, Slowest: 5 * time.Millisecond, Failures: []world.Failure{
			{At: at(0.05), Kind: "503", Flags: "UF", Details: "x{remote_connection_failure|y}"},
		}},
		Pods: []world.Pod{{LastWords: json.RawMessage(`{"refused": 2}`), Marks: []world.Mark{
			{At: at(0), What: world.MarkDeleted},
			{At: at(0.03), Container: "app", What: world.MarkTerm}, {At: at(0.031), Container: "app", What: world.MarkExit},
			{At: at(10.31), What: world.MarkGone},
		}}},
	}}
	saved.Spec.Sidecar.Kind = world.Native
	return []Row{lost, saved}
}

func TestTableTellsWhatTheClientAndLameduckCounted(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, testRows()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"failed of 4,000",
		"| nothing         | exits at once  |               3 |        2 |                                  – |  5.0 s |",
		"| lameduck, relay | exits at once  |               1 |        0 |                              1 / 2 | 1.2 ms |",
		"10.3 s |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestReadmeKeepsAllButTheTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time changes nothing
		if err := UpdateReadme(path, testRows()); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := Table(&table, testRows()); err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + beginMark + "\n" + table.String() + endMark + "\nafter\n"; string(content) != want {
		t.Errorf("got\n%s\nwant\n%s", content, want)
	}
	if err := os.WriteFile(path, []byte("no marks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := UpdateReadme(path, testRows()); err == nil || !strings.Contains(err.Error(), beginMark) {
		t.Errorf("a file without marks: %v", err)
	}
}

func TestPictureIsDrawnInBothFormats(t *testing.T) {
	dir := t.TempDir()
	if err := Draw(dir, testRows()); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "demo.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 failed", "1 failed", "pod ends after 10.3 s", "lameduck, relay", "sans-serif"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %q in the SVG", want)
		}
	}
	if png, err := os.ReadFile(filepath.Join(dir, "demo.png")); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
		t.Errorf("no PNG: %v", err)
	}
}

func TestEverySetUpHasItsRow(t *testing.T) {
	kinds := make(map[world.TermBehaviour]bool)
	without := 0
	for _, s := range Setups() {
		if s.Spec.Sidecar.Hold {
			kinds[s.Spec.App.OnTerm] = true
		}
		if s.Spec.Sidecar.Kind == world.NoSidecar {
			without++
		}
	}
	if len(kinds) != 4 || without != 4 {
		t.Errorf("hold hook for %v, %d set-ups without lameduck", kinds, without)
	}
}
