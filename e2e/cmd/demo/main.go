// Command demo shows pods die behind a real Envoy, with lameduck and without, side by side: one table and one picture.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"lameduck/e2e/demo"
	"lameduck/e2e/world"
)

func main() {
	out := flag.String("out", "", "folder for demo.svg, demo.png and demo.md; default: the repository's build/demo")
	readme := flag.String("readme", "", "file whose table, between <!-- demo:begin --> and <!-- demo:end -->, is replaced")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := run(ctx, *out, *readme, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, readme string, stdout, stderr io.Writer) error {
	_, _ = fmt.Fprintln(stderr, "building")
	tools, err := world.Prepare(ctx, stderr)
	if err != nil {
		return err
	}
	if out == "" {
		root, err := world.Repository(ctx)
		if err != nil {
			return err
		}
		out = filepath.Join(root, "build", "demo")
	}
	rows, err := demo.Run(ctx, tools, demo.Setups(), stderr)
	if err != nil {
		return err
	}
	if err := write(out, rows); err != nil {
		return err
	}
	if readme != "" {
		if err := demo.UpdateReadme(readme, rows); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(stderr, "the picture: %s\n", filepath.Join(out, "demo.svg"))
	return demo.Table(stdout, rows)
}

// write puts the table and the picture into a folder.
func write(dir string, rows []demo.Row) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	table, err := os.Create(filepath.Join(dir, "demo.md"))
	if err != nil {
		return err
	}
	defer func() { _ = table.Close() }()
	if err := demo.Table(table, rows); err != nil {
		return err
	}
	return demo.Draw(dir, rows)
}
