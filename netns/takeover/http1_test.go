package takeover

import (
	"strings"
	"testing"
)

const envoyCheck = "GET /healthz HTTP/1.1\r\nhost: backend\r\nuser-agent: Envoy/HC\r\n\r\n"

func TestOnlyHealthChecksAreFailed(t *testing.T) {
	long := strings.Repeat("x", maxMethod+1)
	for name, c := range map[string]struct {
		head string
		want kind
	}{
		"nothing yet":                        {"", undecided},
		"Envoy's check":                      {envoyCheck, checkHTTP1},
		"a user that says it is Envoy's":     {"GET / HTTP/1.1\r\nx-request-id: 1\r\nuser-agent: Envoy/HC\r\n\r\n", pass},
		"the id after the agent":             {"GET / HTTP/1.1\r\nuser-agent: Envoy/HC\r\nx-request-id: 1\r\n\r\n", pass},
		"in any case":                        {"GET /x HTTP/1.1\r\nUSER-AGENT:\t ENVOY/hc \r\n\r\n", checkHTTP1},
		"by CONNECT":                         {"CONNECT a:1 HTTP/1.1\r\nUser-Agent: Envoy/HC\r\n\r\n", pass},
		"by no method of Envoy's":            {"PURGE /x HTTP/1.1\r\nUser-Agent: Envoy/HC\r\n\r\n", pass},
		"by POST":                            {"POST /x HTTP/1.1\r\nUser-Agent: Envoy/HC\r\n\r\n", checkHTTP1},
		"HAProxy's OPTIONS of a health path": {"OPTIONS /ready HTTP/1.0\r\n\r\n", checkHTTP1},
		"a POST of a health path":            {"POST /ready HTTP/1.1\r\ncontent-length: 0\r\n\r\n", pass},
		"by HEAD":                            {"HEAD /x HTTP/1.1\r\nUser-Agent: Envoy/HC\r\n\r\n", checkHTTP1},
		"before its head has ended":          {"GET /x HTTP/1.1\r\nUser-Agent: Envoy/HC\r\nacc", undecided},
		"HTTP/1.0":                           {"GET /x HTTP/1.0\r\nUser-Agent: Envoy/HC\r\n\r\n", checkHTTP1},
		"a longer agent":                     {"GET /x HTTP/1.1\r\nUser-Agent: Envoy/HC2\r\n\r\n", pass},
		"the agent in another header":        {"GET /x HTTP/1.1\r\nX-Agent: Envoy/HC\r\n\r\n", pass},
		"the agent in the body":              {"POST /x HTTP/1.1\r\n\r\nUser-Agent: Envoy/HC\r\n\r\n", pass},
		"a health path":                      {"GET /ready HTTP/1.1\r\nhost: a\r\n\r\n", checkHTTP1},
		"a health path with a query":         {"GET /ready?full=1 HTTP/1.1\r\n\r\n", checkHTTP1},
		"a health path, unfinished":          {"GET /ready HTTP/1.1\r\nhost: a\r\n", undecided},
		"C33: a user's GET of a health path": {"GET /ready HTTP/1.1\r\nX-Request-Id: 7\r\n\r\n", pass},
		"below a health path":                {"GET /ready/x HTTP/1.1\r\n\r\n", pass},
		"another path":                       {"GET / HTTP/1.1\r\nuser-agent: curl\r\n\r\n", pass},
		"TLS":                                {"\x16\x03\x01", pass},
		"HTTP/2 in capitals only":            {"PRI * HTTP/2.0\r\nHost: a\r\n\r\n", pass},
		"a word":                             {"GE", undecided},
		"a long word":                        {long, pass},
		"a greeting":                         {"EHLO me\r\n", pass},
		"LF alone":                           {"GET / HTTP/1.1\nUser-Agent: Envoy/HC\n\n", pass},
		"LF alone in a header":               {"GET /ready HTTP/1.1\r\na: b\nc: d\r\n\r\n", pass},
		"no target":                          {"GET  HTTP/1.1\r\n", pass},
		"a target with a control byte":       {"GET /\x01 HTTP/1.1\r\n", pass},
		"a folded header":                    {"GET /ready HTTP/1.1\r\na: b\r\n c\r\n\r\n", pass},
		"no colon":                           {"GET /ready HTTP/1.1\r\nabc\r\n\r\n", pass},
		"a PROXY header, begun":              {"PROXY TCP4 1.2.3.4", undecided},
		"a PROXY header without an end":      {"PROXY TCP4 " + strings.Repeat("1", maxProxyV1) + " x", pass},
		"an empty line first":                {"\r\nGET /ready HTTP/1.1\r\n\r\n", pass},
		"HTTP/1.10":                          {"GET /ready HTTP/1.10\r\n\r\n", pass},
		"a line that ends in CR so far":      {"GET /ready HTTP/1.1\r", undecided},
	} {
		t.Run(name, func(t *testing.T) {
			if got := classify([]byte(c.head), []string{"/ready"}); got.kind != c.want {
				t.Errorf("%q: %+v, not %d", c.head, got, c.want)
			}
		})
	}
}
