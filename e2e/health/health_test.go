// Package health_test shows that a real client of gRPC's, as load balancers and grpc-health-probe are, understands
// lameduck's grpc.health.v1.Health. Envoy's own checker is asked in the world.
package health_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"lameduck/netns/netnstest"
)

func TestMain(m *testing.M) { os.Exit(netnstest.Main(m)) }

const (
	watchdog = 40 * time.Second
	admin    = "127.0.0.1:8420"
	binary   = "../../build/bin/lameduck-health"
)

// build makes the program, with the privilege that the test began with.
func build(t *testing.T) {
	t.Helper()
	path, err := filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", path, "./cmd/lameduck")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
}

func TestGRPCClientUnderstandsLameducksHealth(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "cleartext", true: "TLS"}[secure], func(t *testing.T) {
			netnstest.RunUnprivileged(t, func(*netnstest.Namespace) { build(t) }, func(t *testing.T) { understands(t, secure) })
		})
	}
}

// understands runs a pod's life: serving, a drain, the end.
func understands(t *testing.T, secure bool) {
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	app, err := net.Listen("tcp", ":8080")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.Close() }()
	flags := []string{"run", "--min=0s", "--quiet=200ms"}
	transport := insecure.NewCredentials()
	if secure {
		cert, key, roots := certificate(t)
		flags = append(flags, "--admin-cert", cert, "--admin-key", key)
		transport = credentials.NewTLS(&tls.Config{RootCAs: roots})
	}
	lameduck := start(t, flags...)
	conn, err := grpc.NewClient(admin, grpc.WithTransportCredentials(transport))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c := grpc_health_v1.NewHealthClient(conn)

	const up, down = grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING
	wantHealth(ctx, t, c, up, nil)
	watch, err := c.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: "shop.Cart"})
	if err != nil {
		t.Fatal(err)
	}
	wantNext(t, watch, up)
	if !secure {
		wantAsleep(t, lameduck.Process.Pid)
	}
	_, err = c.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", 5000)})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("an overlong name: %v", err)
	}

	if out, err := exec.CommandContext(ctx, binary, "drain").CombinedOutput(); err != nil {
		t.Fatalf("drain: %v\n%s", err, out)
	}
	wantNext(t, watch, down)
	wantHealth(ctx, t, c, down, []string{"1"})

	_ = app.Close()
	_ = lameduck.Process.Signal(syscall.SIGTERM)
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("at the end Watch got %v", err)
	}
	if err := lameduck.Wait(); err != nil {
		t.Errorf("lameduck: %v", err)
	}
}

// wantHealth asks in every way that does not wait.
func wantHealth(ctx context.Context, t *testing.T, c grpc_health_v1.HealthClient, want grpc_health_v1.HealthCheckResponse_ServingStatus, fail []string) {
	t.Helper()
	for _, name := range []string{"", "shop.Cart"} {
		var header metadata.MD
		r, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name}, grpc.Header(&header), grpc.WaitForReady(true))
		if err != nil || r.Status != want {
			t.Errorf("Check(%q): %v, %v", name, r, err)
		}
		if got := header.Get("x-envoy-immediate-health-check-fail"); len(got) != len(fail) {
			t.Errorf("Check(%q): the header is %q", name, got)
		}
	}
	r, err := c.List(ctx, &grpc_health_v1.HealthListRequest{})
	if err != nil || len(r.Statuses) != 1 || r.Statuses[""].GetStatus() != want {
		t.Errorf("List: %v, %v", r, err)
	}
}

func wantNext(t *testing.T, watch grpc.ServerStreamingClient[grpc_health_v1.HealthCheckResponse], want grpc_health_v1.HealthCheckResponse_ServingStatus) {
	t.Helper()
	r, err := watch.Recv()
	if err != nil || r.Status != want {
		t.Fatalf("Watch: %v, %v", r, err)
	}
}

// wantAsleep fails where a call of Watch that has nothing to tell wakes the process: a poll each second would show.
func wantAsleep(t *testing.T, pid int) {
	t.Helper()
	const settling, seconds, most = 6, 8, 5 // the calls before have timers of 5 s
	<-time.After(settling * time.Second)
	before := sleeps(t, pid)
	<-time.After(seconds * time.Second)
	if n := sleeps(t, pid) - before; n > most {
		t.Errorf("it woke %d times in %d s", n, seconds)
	}
}

// sleeps is how often the threads of a process have gone to sleep of their own accord.
func sleeps(t *testing.T, pid int) int {
	t.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if len(files) == 0 {
		t.Fatal("no process")
	}
	n := 0
	for _, file := range files {
		content, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(content), "\nvoluntary_ctxt_switches:")
		var count int
		_, _ = fmt.Sscan(rest, &count)
		n += count
	}
	return n
}

// start starts lameduck and waits until it serves.
func start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for end := time.Now().Add(watchdog); ; {
		conn, err := net.Dial("tcp", admin)
		if err == nil {
			_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // answered: it serves
			_ = conn.Close()
			return cmd
		}
		if time.Now().After(end) {
			t.Fatalf("lameduck does not listen: %v", err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// certificate writes a certificate for loopback and its key, and returns who trusts it.
func certificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	write := func(name, kind string, content []byte) string {
		path, text := filepath.Join(t.TempDir(), name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		roots.AppendCertsFromPEM(text)
		return path
	}
	return write("tls.crt", "CERTIFICATE", der), write("tls.key", "PRIVATE KEY", secret), roots
}
