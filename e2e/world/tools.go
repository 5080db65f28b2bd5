package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tools are the programs that a world is made of.
type Tools struct {
	World, Lameduck, Envoy string
	// Dir is an empty folder that each run mounts its files on, unseen by others.
	Dir string
}

// Prepare builds the programs and finds Envoy: $ENVOY, or the PATH, or the wheel. All that it writes is in the
// repository's build folder, but for Go's own caches. log hears what takes time.
func Prepare(ctx context.Context, log io.Writer) (Tools, error) {
	root, err := Repository(ctx)
	if err != nil {
		return Tools{}, err
	}
	build := filepath.Join(root, "build")
	bin := filepath.Join(build, "bin")
	t := Tools{World: filepath.Join(bin, "world"), Lameduck: filepath.Join(bin, "lameduck"), Dir: filepath.Join(build, "run")}
	for _, dir := range []string{bin, t.Dir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return Tools{}, err
		}
	}
	if err := goBuild(ctx, filepath.Join(root, "e2e"), t.World, "./cmd/world"); err != nil {
		return Tools{}, err
	}
	if err := goBuild(ctx, root, t.Lameduck, "./cmd/lameduck"); err != nil {
		return Tools{}, err
	}
	t.Envoy, err = findEnvoy(ctx, build, log)
	return t, err
}

// Repository is the folder of the module lameduck, from anywhere in lameduck/e2e.
func Repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "lameduck/e2e").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: run from within its e2e folder: %w", explained(err))
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// goBuild builds a static program.
func goBuild(ctx context.Context, dir, output, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", output, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, bytes.TrimSpace(out))
	}
	return nil
}

func findEnvoy(ctx context.Context, build string, log io.Writer) (string, error) {
	if path := os.Getenv("ENVOY"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("$ENVOY: %w", err)
		}
		return filepath.Abs(path)
	}
	if path, err := exec.LookPath("envoy"); err == nil {
		return filepath.Abs(path)
	}
	return fetchEnvoy(ctx, filepath.Join(build, "envoy"), log)
}

// explained adds what a failed command said.
func explained(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}
