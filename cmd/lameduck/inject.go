package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"lameduck/manifests/inject"
)

// injectFlags is the table of inject's flags.
func injectFlags() []flag {
	table := []flag{{name: "filename", short: "f", kind: "path", value: "-", meaning: "the YAML stream, or a ResourceList", bounds: "`-` is stdin"}}
	for _, o := range inject.Options() {
		table = append(table, flag{name: o.Name, kind: o.Kind, shown: cmp.Or(o.Default, "–"), meaning: o.Meaning, bounds: o.Bounds, repeatable: o.List})
	}
	return table
}

// runInject writes a YAML stream anew, with the sidecar and the hold hook in its workloads: all of it or nothing.
func runInject(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	path, defaults, err := parseInject(args)
	switch {
	case errors.Is(err, errHelp):
		return help(stdout)
	case err != nil:
		fmt.Fprintf(stderr, "lameduck: inject: %s\n", strings.ReplaceAll(err.Error(), "\n", "\nlameduck: inject: "))
		return exitUsage
	}
	name, text, err := readStream(path, stdin)
	if err != nil {
		fmt.Fprintf(stderr, "lameduck: inject: --filename %q: %v\n", path, err)
		return exitFailed
	}
	out, remarks, err := inject.Stream(text, defaults)
	if told := (*inject.Error)(nil); errors.As(err, &told) {
		remarks = append(remarks, told.Remarks...)
	} else if err != nil {
		fmt.Fprintf(stderr, "lameduck: %v\n", err)
	}
	for _, r := range remarks {
		where := name
		if r.Line > 0 {
			where = fmt.Sprintf("%s:%d", name, r.Line)
		}
		fmt.Fprintf(stderr, "lameduck: inject: %s: %s\n", where, r)
	}
	if _, wrong := stdout.Write(out); wrong != nil {
		fmt.Fprintf(stderr, "lameduck: inject: %v\n", wrong)
		return exitFailed
	}
	if err != nil {
		return exitFailed
	}
	return exitOK
}

// parseInject returns the path of the stream, and the options that were given, by name.
func parseInject(args []string) (path string, defaults map[string]string, err error) {
	table := injectFlags()
	given, rest, err := parseLine(table, args)
	switch {
	case err != nil:
		return "", nil, err
	case len(rest) > 0:
		return "", nil, fmt.Errorf("it takes flags only, not %q; write -f %s", rest[0], rest[0])
	}
	path, defaults = table[0].value, map[string]string{}
	if files := given["filename"]; len(files) > 0 {
		path = files[0]
	}
	var failed []error
	for _, o := range inject.Options() {
		if values := given[o.Name]; len(values) > 0 {
			defaults[o.Name] = strings.Join(values, ",")
			if wrong := o.Check(defaults[o.Name]); wrong != nil {
				failed = append(failed, fmt.Errorf("--%s %q: %w", o.Name, defaults[o.Name], wrong))
			}
		}
	}
	return path, defaults, errors.Join(failed...)
}

// readStream reads a file or stdin, and a byte more at the most than can be injected.
func readStream(path string, stdin io.Reader) (name string, text []byte, err error) {
	name = "stdin"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", nil, err
		}
		defer file.Close()
		name, stdin = path, file
	}
	text, err = io.ReadAll(io.LimitReader(stdin, inject.MaxInput+1))
	return name, text, err
}
