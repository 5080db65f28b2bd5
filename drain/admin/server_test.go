package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"lameduck/drain"
)

// serve starts a server with the fake and returns its base URL. stop ends it and waits for its end.
func serve(t *testing.T, backend *fake, change func(*Server)) (base string, stop func()) {
	t.Helper()
	server, err := Listen(Options{Address: "127.0.0.1:0", Backend: backend, Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(server)
	}
	return "http://" + server.Addr().String(), running(t, server.Run)
}

// running runs a part in the background. stop ends it and waits for its end, which is an error if it takes long.
func running(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(watchdog):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// client speaks one protocol and keeps no connection beyond the test.
func client(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: watchdog}
}

type response struct {
	code   int
	header http.Header
	body   string
	proto  int
}

func get(t *testing.T, c *http.Client, url string) response {
	t.Helper()
	r, err := fetch(c, url)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fetch(c *http.Client, url string) (response, error) {
	r, err := c.Get(url)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	return response{r.StatusCode, r.Header, string(body), r.ProtoMajor}, err
}

func TestHealthFollowsTheDrain(t *testing.T) {
	for _, test := range []struct {
		name     string
		draining bool
		unwell   error
		code     int
		fail     string
		body     string
		asked    bool
	}{
		{"serving and well", false, nil, 200, "", "serving\n", true},
		{"serving and unwell", false, errors.New("port 8080 does not listen"), 503, "", "port 8080 does not listen\n", true},
		{"draining", true, nil, 503, "1", "draining\n", false},
		{"draining and unwell", true, errors.New("gone"), 503, "1", "draining\n", false},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				asked := false
				backend := newFake()
				backend.draining, backend.unwell, backend.slow = test.draining, test.unwell, func() { asked = true }
				base, _ := serve(t, backend, nil)
				r := get(t, client(t, http2), base+"/healthz")
				if r.code != test.code || r.body != test.body || r.header.Get("X-Envoy-Immediate-Health-Check-Fail") != test.fail {
					t.Errorf("got %+v", r)
				}
				if (r.proto == 2) != http2 {
					t.Errorf("spoke HTTP/%d", r.proto)
				}
				if asked != test.asked {
					t.Errorf("asked for the application's health: %v", asked)
				}
				backend.await(t, "word of the check", func(f *fake) bool {
					return len(f.checks) == 1 && f.checks[0].source.Addr().IsLoopback() && f.checks[0].failed == (test.code != 200)
				})
			})
		}
	}
}

// A drain that begins while the application is asked must not be answered with 200.
func TestHealthFailsWhenTheDrainBeginsDuringTheCheck(t *testing.T) {
	backend := newFake()
	backend.slow = func() { backend.set(func(f *fake) { f.draining = true }) }
	base, _ := serve(t, backend, nil)
	if r := get(t, client(t, false), base+"/healthz"); r.code != 503 {
		t.Errorf("got %d", r.code)
	}
}

// Envoy Gateway's checks bear "Host: *", which is no host name (facts.md).
func TestHealthAcceptsEnvoyGatewaysHost(t *testing.T) {
	base, _ := serve(t, newFake(), nil)
	if line := raw(t, base, "GET /healthz HTTP/1.1\r\nHost: *\r\nUser-Agent: Envoy/HC\r\n\r\n"); !strings.Contains(line, " 200 ") {
		t.Errorf("got %q", line)
	}
}

func TestLivenessStaysGreenInEveryPhase(t *testing.T) {
	backend := newFake()
	base, _ := serve(t, backend, nil)
	for _, phase := range []drain.Phase{drain.Serving, drain.Draining, drain.Covering, drain.Done} {
		backend.set(func(f *fake) {
			f.status.Phase, f.draining, f.unwell = phase, phase != drain.Serving, errors.New("unwell")
		})
		if r := get(t, client(t, false), base+"/livez"); r.code != 200 {
			t.Errorf("%s: %d", phase, r.code)
		}
	}
}

func TestStatusIsTheBackendsCopyAsJSON(t *testing.T) {
	backend := newFake()
	backend.status = drain.Status{
		Phase: drain.Draining, WaitsFor: "quiet", Trigger: "drain", Holds: 2,
		Sources:  []drain.Source{{Address: netip.MustParseAddr("10.0.0.7"), Messages: 3}},
		Degraded: []string{"sock_diag refused: a bounded wait"},
	}
	base, _ := serve(t, backend, nil)
	r := get(t, client(t, false), base+"/status")
	var got drain.Status
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v in %+v", err, r)
	}
	if got.Phase != drain.Draining || got.Holds != 2 || len(got.Sources) != 1 || got.Sources[0] != backend.status.Sources[0] ||
		len(got.Degraded) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestAddressInUseIsSaidAtOnce(t *testing.T) {
	first, err := Listen(Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.listener.Close() }()
	_, err = Listen(Options{Address: first.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "address already in use") || !strings.Contains(err.Error(), first.Addr().String()) {
		t.Errorf("got %v", err)
	}
}

// raw sends bytes and returns the first line of what comes back.
func raw(t *testing.T, base, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(watchdog))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	if err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	line, _, _ := strings.Cut(string(answer[:n]), "\r\n")
	return line
}
