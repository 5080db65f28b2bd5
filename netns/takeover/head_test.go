package takeover

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"
)

const envoyCheck = "GET /healthz HTTP/1.1\r\nhost: backend\r\nuser-agent: Envoy/HC\r\n\r\n"

func TestOnlyHealthChecksAreFailed(t *testing.T) {
	long := strings.Repeat("x", maxMethod+1)
	for name, c := range map[string]struct {
		head string
		want verdict
	}{
		"nothing yet":                          {"", undecided},
		"Envoy's check":                        {envoyCheck, failCheck},
		"C33: Envoy's check with a request id": {"GET / HTTP/1.1\r\nx-request-id: 1\r\nuser-agent: Envoy/HC\r\n\r\n", failCheck},
		"in any case":                          {"GET /x HTTP/1.1\r\nUSER-AGENT:\t ENVOY/hc \r\n\r\n", failCheck},
		"of any method":                        {"HEAD /x HTTP/1.1\r\nUser-Agent: Envoy/HC\r\n\r\n", failCheck},
		"before its head has ended":            {"GET /x HTTP/1.1\r\nUser-Agent: Envoy/HC\r\nacc", failCheck},
		"HTTP/1.0":                             {"GET /x HTTP/1.0\r\nUser-Agent: Envoy/HC\r\n\r\n", failCheck},
		"a longer agent":                       {"GET /x HTTP/1.1\r\nUser-Agent: Envoy/HC2\r\n\r\n", pass},
		"the agent in another header":          {"GET /x HTTP/1.1\r\nX-Agent: Envoy/HC\r\n\r\n", pass},
		"the agent in the body":                {"POST /x HTTP/1.1\r\n\r\nUser-Agent: Envoy/HC\r\n\r\n", pass},
		"a health path":                        {"GET /ready HTTP/1.1\r\nhost: a\r\n\r\n", failCheck},
		"a health path with a query":           {"GET /ready?full=1 HTTP/1.1\r\n\r\n", failCheck},
		"a health path, unfinished":            {"GET /ready HTTP/1.1\r\nhost: a\r\n", undecided},
		"C33: a user's GET of a health path":   {"GET /ready HTTP/1.1\r\nX-Request-Id: 7\r\n\r\n", pass},
		"below a health path":                  {"GET /ready/x HTTP/1.1\r\n\r\n", pass},
		"another path":                         {"GET / HTTP/1.1\r\nuser-agent: curl\r\n\r\n", pass},
		"TLS":                                  {"\x16\x03\x01", pass},
		"HTTP/2":                               {"PRI * HTTP/2.0\r\n", pass},
		"HTTP/2, begun":                        {"PRI * HT", undecided},
		"a word":                               {"GE", undecided},
		"a long word":                          {long, pass},
		"a greeting":                           {"EHLO me\r\n", pass},
		"LF alone":                             {"GET / HTTP/1.1\nUser-Agent: Envoy/HC\n\n", pass},
		"LF alone in a header":                 {"GET /ready HTTP/1.1\r\na: b\nc: d\r\n\r\n", pass},
		"no target":                            {"GET  HTTP/1.1\r\n", pass},
		"a target with a control byte":         {"GET /\x01 HTTP/1.1\r\n", pass},
		"a folded header":                      {"GET /ready HTTP/1.1\r\na: b\r\n c\r\n\r\n", pass},
		"no colon":                             {"GET /ready HTTP/1.1\r\nabc\r\n\r\n", pass},
		"an empty line first":                  {"\r\nGET /ready HTTP/1.1\r\n\r\n", pass},
		"HTTP/1.10":                            {"GET /ready HTTP/1.10\r\n\r\n", pass},
		"a line that ends in CR so far":        {"GET /ready HTTP/1.1\r", undecided},
	} {
		t.Run(name, func(t *testing.T) {
			if got := classify([]byte(c.head), []string{"/ready"}); got != c.want {
				t.Errorf("%q: verdict %d, not %d", c.head, got, c.want)
			}
		})
	}
}

func FuzzClassify(f *testing.F) {
	for _, s := range []string{
		envoyCheck, "GET /ready HTTP/1.1\r\nhost: a\r\n\r\n", "GET /ready HTTP/1.1\r\nx-request-id: a\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00", "GET / HTTP/1.1\nUser-Agent: Envoy/HC\n\n", "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		paths := []string{"/ready"}
		last := undecided
		for i := range min(len(b), 512) {
			v := classify(b[:i], paths)
			if last != undecided && v != last {
				t.Fatalf("%q was %d, then %d", b[:i], last, v)
			}
			last = v
		}
		if classify(b, paths) != failCheck {
			return
		}
		// Where the standard library reads a request, it must agree on what makes it a check.
		head, _, ok := bytes.Cut(b, []byte("\r\n\r\n"))
		if !ok {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append(head, "\r\n\r\n"...))))
		if err != nil {
			return
		}
		agent := false
		for _, v := range r.Header["User-Agent"] {
			agent = agent || strings.EqualFold(v, checker)
		}
		target, _, _ := strings.Cut(r.RequestURI, "?")
		if !agent && (target != "/ready" || r.Header["X-Request-Id"] != nil) {
			t.Errorf("%q is no health check", b)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	head := []byte("GET /ready HTTP/1.1\r\nhost: backend\r\nuser-agent: curl/8\r\naccept: */*\r\nx-request-id: 1234\r\n\r\n")
	b.ReportAllocs()
	for b.Loop() {
		classify(head, []string{"/ready"})
	}
}
