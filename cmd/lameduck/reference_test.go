package main

import (
	"bytes"
	stdflag "flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

//go:generate go test -run TestReadmeReferenceIsTheFlagTable . -update

var update = stdflag.Bool("update", false, "write the README's reference")

const readme = "../../README.md"

// reference is a table of flags in Markdown.
func reference(table []flag) string {
	var b strings.Builder
	b.WriteString("| flag | value | default | meaning | bounds |\n|---|---|---|---|---|\n")
	for _, f := range table {
		value := f.kind
		if value == "" {
			value = "switch"
		}
		if f.repeatable {
			value += ", repeatable"
		}
		standard := f.shown
		if standard == "" {
			standard = "`" + f.value + "`"
		}
		name := "`--" + f.name + "`"
		if f.short != "" {
			name = "`-" + f.short + "`, " + name
		}
		cells := []string{name, value, standard, f.meaning, f.bounds}
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String()
}

// The README's reference comes from the tables; `make reference` writes it.
func TestReadmeReferenceIsTheFlagTable(t *testing.T) {
	for name, table := range map[string][]flag{"flags": flags(), "inject": injectFlags()} {
		begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->\n"
		text, err := os.ReadFile(readme)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, ok := strings.Cut(string(text), begin)
		stands, after, okEnd := strings.Cut(rest, end)
		if !ok || !okEnd {
			t.Fatalf("%s has no %s…%s", readme, strings.TrimSpace(begin), end)
		}
		want := reference(table)
		if stands == want {
			continue
		}
		if !*update {
			t.Fatalf("the README's table of %s is old: run make reference", name)
		}
		if err := os.WriteFile(readme, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHelpNamesEveryFlagOnce(t *testing.T) {
	var out bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, nil, &out, &out); code != exitOK {
		t.Fatalf("exit %d", code)
	}
	own, injects, _ := strings.Cut(out.String(), "Flags of inject.")
	for text, table := range map[string][]flag{own: flags(), injects: injectFlags()} {
		for _, f := range table {
			if n := strings.Count(text, "\n  "+helpName(f)+helpKind(f)+"\n"); n != 1 {
				t.Errorf("--%s stands %d times in the help", f.name, n)
			}
			if !strings.Contains(text, helpText(f)) {
				t.Errorf("--%s: its meaning is missing", f.name)
			}
		}
	}
}

// The contract of the interface, as its users know it.
func TestFlagsAndDefaultsAreTheContract(t *testing.T) {
	contract := map[string]string{
		"admin-address": ":8420", "admin-cert": "", "admin-key": "", "port": "", "envoy": "", "envoy-slices": "", "node-ip": "", "quiet": "5s", "min": "10s",
		"grace-period": "30s", "shutdown-reserve": "5s", "after-app": "", "relay-to": "", "new-connections": "serve",
		"health-path": "", "app-health": "", "trust-checks": "false", "observe-only": "false", "netns": "",
	}
	for _, f := range flags() {
		want, known := contract[f.name]
		if !known || want != f.value {
			t.Errorf("--%s has the default %q, want %q (known: %v)", f.name, f.value, want, known)
		}
		delete(contract, f.name)
	}
	if len(contract) > 0 {
		t.Errorf("missing: %v", contract)
	}
}
