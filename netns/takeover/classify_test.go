package takeover

import "testing"

// firsts are first bytes of each kind.
func firsts(t testing.TB) map[string][]byte {
	envoy := recorded(t)
	return map[string][]byte{
		"raw":            {0, 1, 2, 3},
		"TLS":            envoy["tls-check-http1"],
		"HTTP1":          envoy["request-http1"],
		"HTTP1-check":    envoy["check-http1"],
		"HTTP1-long":     append([]byte("GET / HTTP/1.1\r\ncookie: "), make([]byte, maxHead-24)...),
		"HTTP2":          envoy["request-http2"],
		"HTTP2-half":     envoy["request-http2"][:60],
		"HTTP2-check":    envoy["check-http2"],
		"gRPC-check":     envoy["check-grpc"],
		"PROXY-HTTP1":    envoy["request-http1-proxy-v2"],
		"HPACK-bomb":     bomb(),
		"continuations":  manyContinuations(),
		"frames-no-end":  manyFrames(),
		"HTTP1-no-colon": append([]byte("GET / HTTP/1.1\r\n"), make([]byte, maxHead-16)...),
	}
}

// Most connections of most protocols are looked at for nothing: that must cost nothing.
func TestPlainConnectionsAreJudgedWithoutAllocation(t *testing.T) {
	for _, name := range []string{"raw", "TLS", "HTTP1", "HTTP1-check", "HTTP1-long", "HTTP2-half", "PROXY-HTTP1"} {
		first := firsts(t)[name]
		if n := testing.AllocsPerRun(100, func() { classify(first, fuzzPaths) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	for name, first := range firsts(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				classify(first, fuzzPaths)
			}
		})
	}
}
