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

const (
	readme         = "../../README.md"
	referenceBegin = "<!-- flags:begin -->\n"
	referenceEnd   = "<!-- flags:end -->"
)

// reference is the table of flags in Markdown.
func reference() string {
	var b strings.Builder
	b.WriteString("| flag | value | default | meaning | bounds |\n|---|---|---|---|---|\n")
	for _, f := range flags() {
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
		cells := []string{"`--" + f.name + "`", value, standard, f.meaning, f.bounds}
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(cell, "|", `\|`)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String()
}

// The README's reference comes from the table; `make reference` writes it.
func TestReadmeReferenceIsTheFlagTable(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), referenceBegin)
	stands, after, okEnd := strings.Cut(rest, referenceEnd)
	if !ok || !okEnd {
		t.Fatalf("%s has no %s…%s", readme, strings.TrimSpace(referenceBegin), referenceEnd)
	}
	if stands == reference() {
		return
	}
	if !*update {
		t.Fatal("the README's reference is old: run make reference")
	}
	if err := os.WriteFile(readme, []byte(before+referenceBegin+reference()+referenceEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestHelpNamesEveryFlagOnce(t *testing.T) {
	var out bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, nil, &out, &out); code != exitOK {
		t.Fatalf("exit %d", code)
	}
	for _, f := range flags() {
		if n := strings.Count(out.String(), "\n  --"+f.name+helpKind(f)+"\n"); n != 1 {
			t.Errorf("--%s stands %d times in the help", f.name, n)
		}
		if !strings.Contains(out.String(), helpText(f)) {
			t.Errorf("--%s: its meaning is missing", f.name)
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
