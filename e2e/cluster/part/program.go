package part

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Versions of what is built. The go.mod files of e2e/cluster/build say the same.
const kubernetesVersion = "v1.37.2"

// program is a program that a module of e2e/cluster/build is there for.
type program struct {
	// module is the module's folder, pkg the main package, cost its processor time to build from nothing.
	module, pkg string
	cost        time.Duration
	ldflags     string
}

func kube() program {
	// Without these the API server calls itself v0.0.0.
	var flags strings.Builder
	flags.WriteString("-s -w")
	minor := strings.Split(kubernetesVersion, ".")[1]
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		fmt.Fprintf(&flags, " -X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s", pkg, kubernetesVersion, pkg, pkg, minor)
	}
	return program{"kube", ".", 1600 * time.Second, flags.String()}
}

func gateway(version string) program {
	return program{gatewayModule(version), "github.com/envoyproxy/gateway/cmd/envoy-gateway", 800 * time.Second, "-s -w"}
}

// GatewayName is the version of Envoy Gateway as a person says it.
func (p Parts) GatewayName() string {
	if p.GatewayVersion == "" {
		return "1.9"
	}
	return p.GatewayVersion
}

// gatewayModule is the folder of the module for a version of Envoy Gateway; empty stands for a recent one.
func gatewayModule(version string) string {
	if version == "" {
		return "gateway"
	}
	return "gateway-" + version
}

func dns() program { return program{"dns", ".", 240 * time.Second, "-s -w"} }

// program builds p, or finds it built from the same sources by the same Go.
func (m maker) program(ctx context.Context, p program) (string, error) {
	dir := filepath.Join(m.sources, "build", p.module)
	key, err := sourceKey(dir, runtime.Version()+runtime.GOARCH+p.pkg+p.ldflags)
	if err != nil {
		return "", err
	}
	return m.once(p.module+"-"+key, func(work string) (string, error) {
		m.say("building %s: about %.0f minutes on two free cores if Go's cache is empty", p.module, p.cost.Minutes()/2)
		output := filepath.Join(work, p.module)
		return output, m.build(ctx, p, dir, output)
	})
}

// build is as gentle as it can be: whatever else the machine does comes first.
func (m maker) build(ctx context.Context, p program, dir, output string) error {
	total, err := countPackages(ctx, dir, p.pkg)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", "go", "build", "-v", "-trimpath", "-ldflags", p.ldflags, "-o", output, p.pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said := m.follow(p.module, total, stderr)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", p.pkg, err, said)
	}
	return nil
}

// follow tells every 15 s how many packages have been compiled, and returns what else was printed last.
func (m maker) follow(name string, total int, stderr io.Reader) string {
	start, told, compiled := time.Now(), time.Now(), 0
	var said []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if line := lines.Text(); strings.ContainsAny(line, " :") {
			said = append(said, line)
			said = said[max(0, len(said)-20):]
		} else {
			compiled++
		}
		if time.Since(told) > 15*time.Second {
			told = time.Now()
			m.say("  %s: %d of at most %d packages, %.0f s", name, compiled, total, time.Since(start).Seconds())
		}
	}
	return strings.Join(said, "\n")
}

func countPackages(ctx context.Context, dir, pkg string) (int, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := output(cmd)
	return bytes.Count(out, []byte("\n")), err
}

// sourceKey is a hash over the files of a folder and what else counts.
func sourceKey(dir, more string) (string, error) {
	sum := sha256.New()
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", file.Name(), len(text), text)
	}
	_, _ = io.WriteString(sum, more)
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// output runs a command and returns what it prints; an error tells what it said.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// harness builds the program of this harness. It changes often and costs little: Go's cache is all it needs.
func (m maker) harness(ctx context.Context, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", to, "./cmd/cluster")
	cmd.Dir, cmd.Env = filepath.Dir(m.sources), append(os.Environ(), "CGO_ENABLED=0")
	_, err := output(cmd)
	return err
}

// crds is the folder of Envoy Gateway's CRDs in Go's cache of modules.
func (m maker) crds(ctx context.Context, version string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "github.com/envoyproxy/gateway")
	cmd.Dir = filepath.Join(m.sources, "build", gatewayModule(version))
	out, err := output(cmd)
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	chart := filepath.Join(module.Dir, "charts", "gateway-helm")
	// Later versions have them in a chart of their own.
	if dir := filepath.Join(chart, "charts", "crds", "crds"); exists(dir) {
		return dir, nil
	}
	return filepath.Join(chart, "crds"), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
