package takeover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded is what a real Envoy sends first on a connection, by name (Envoy 1.40.0; e2e/world has the test that records
// it): its checkers', and what it forwards of clients' requests.
func recorded(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/envoy/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	all := make(map[string][]byte)
	for _, path := range paths {
		if all[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// C13, C15, C33: what Envoy's own checkers send in cleartext is recognised however it is cut into pieces, and nothing
// that it forwards is taken for it.
func TestWhatEnvoySendsIsJudgedRightFromAnyPieces(t *testing.T) {
	for name, sent := range recorded(t) {
		want := pass
		switch {
		case strings.HasPrefix(name, "check-http1"):
			want = checkHTTP1
		case strings.HasPrefix(name, "check-http2"):
			want = checkHTTP2
		case strings.HasPrefix(name, "check-grpc"):
			want = checkGRPC
		}
		paths := []string{"/healthz", grpcPath}
		if got := classify(sent, paths); got.kind != want {
			t.Errorf("%s: %+v, not %d", name, got, want)
		}
		settles(t, sent, paths)
	}
}

// settles checks that the verdict does not change as bytes are added, whatever the pieces they come in, and the bytes
// stay as they are: they may be relayed yet.
func settles(t *testing.T, b []byte, healthPaths []string) {
	t.Helper()
	before := string(b)
	defer func() {
		if string(b) != before {
			t.Errorf("%q has become %q", before, b)
		}
	}()
	var last verdict
	for i := range len(b) + 1 {
		v := classify(b[:i], healthPaths)
		if last.kind != undecided && v != last {
			t.Fatalf("%q was %+v, then %+v", b[:i], last, v)
		}
		last = v
	}
}
