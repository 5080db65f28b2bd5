package takeover

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

var fuzzPaths = []string{"/healthz", "/ready", grpcPath}

// fuzzed is how much of an input is tried in all its pieces: the time for that grows with the square.
const fuzzed = 1 << 10

// seed adds what Envoy sends, less what cut takes off it.
func seed(f *testing.F, cut func([]byte) []byte) {
	for _, b := range recorded(f) {
		f.Add(cut(b))
	}
}

// FuzzClassify: no connection's first bytes make it panic, and a verdict is final.
func FuzzClassify(f *testing.F) {
	seed(f, func(b []byte) []byte { return b })
	for _, s := range []string{
		"", "\x16\x03\x01\x02\x00", "GET / HTTP/1.1\nUser-Agent: Envoy/HC\n\n", "PROXY UNKNOWN\r\nGET /ready HTTP/1.1\r\n\r\n",
		"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PROXY /ready HTTP/1.1\r\n\r\n", string(bomb()),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		settles(t, b[:min(len(b), fuzzed)], fuzzPaths)
		v := classify(b, fuzzPaths)
		if (v.stream != 0) != (v.kind == checkHTTP2 || v.kind == checkGRPC) || v.kind == lost {
			t.Errorf("%q: %+v", b, v)
		}
	})
}

// FuzzHTTP1: where the standard library reads a request, it agrees on what makes it a check.
func FuzzHTTP1(f *testing.F) {
	seed(f, func(b []byte) []byte { return b })
	for _, s := range []string{
		"GET http://a/ready HTTP/1.1\r\n\r\n", "GET /ready?a=://b HTTP/1.1\r\n\r\n", "get /ready HTTP/1.0\r\nx-request-id: a\r\n\r\n",
		"GET / HTTP/1.1\r\nuser-agent:\r\n Envoy/HC\r\n\r\n", "GET / HTTP/1.1\r\nuser-agent:Envoy/HC\t\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := classifyHTTP1(b, fuzzPaths)
		head, _, whole := bytes.Cut(b, []byte("\r\n\r\n"))
		if !whole {
			return
		}
		if got == undecided {
			t.Fatalf("%q is whole, and undecided", b)
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append(slices.Clip(head), "\r\n\r\n"...))))
		if err != nil || got == pass { // what is relayed may be malformed for one of the two only
			return
		}
		agent := slices.ContainsFunc(r.Header["User-Agent"], func(v string) bool { return strings.EqualFold(v, checker) })
		path, _, _ := strings.Cut(r.RequestURI, "?")
		if _, rest, absolute := strings.Cut(path, "://"); absolute && path[0] != '/' {
			_, path, _ = strings.Cut(rest, "/")
			path = "/" + path
		}
		if !maybe(r.Method, path, agent, false) || r.Header["X-Request-Id"] != nil {
			t.Errorf("%q is no health check", b)
		}
	})
}

// maybe tells by whom a check may be made, by method: Envoy's checker, or whoever asks for a health path.
func maybe(method, path string, agent, grpc bool) bool {
	anybody := method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "POST" && grpc
	envoy := anybody || slices.Contains([]string{"POST", "PUT", "DELETE", "TRACE", "PATCH"}, method)
	return envoy && agent || anybody && slices.Contains(fuzzPaths, path)
}

// FuzzHTTP2: where the library's framer reads a first request, it agrees on whether that is a check, and on its stream.
func FuzzHTTP2(f *testing.F) {
	seed(f, func(b []byte) []byte {
		_, rest, _ := bytes.Cut(b, []byte(preface))
		return rest
	})
	for _, b := range [][]byte{bomb(), continued(1, false), continued(3, true), request2(grpcPath), request2("/ready", requestID, "1")} {
		f.Add(b[len(preface):])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:min(len(b), maxHead)]
		got := classifyHTTP2(b, fuzzPaths)
		settles(t, append([]byte(preface), b[:min(len(b), fuzzed)]...), fuzzPaths)
		if want, ok := firstRequest(b); ok && got != want {
			t.Errorf("%q: %+v, not %+v", b, got, want)
		}
	})
}

// firstRequest is the verdict by the library's framer. ok is false where that reads no request, since it is malformed in
// a way that does not matter here, or longer than what is looked at.
func firstRequest(b []byte) (want verdict, ok bool) {
	fr := http2.NewFramer(io.Discard, bytes.NewReader(b))
	fr.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	fr.MaxHeaderListSize = maxHeaderList
	for first := true; ; first = false {
		frame, err := fr.ReadFrame()
		if err != nil {
			return verdict{}, false
		}
		if _, settings := frame.(*http2.SettingsFrame); first && !settings {
			return verdict{kind: pass}, true
		}
		switch frame := frame.(type) {
		case *http2.DataFrame, *http2.RSTStreamFrame, *http2.PushPromiseFrame, *http2.GoAwayFrame:
			return verdict{kind: pass}, true
		case *http2.MetaHeadersFrame:
			return judgeFields(frame)
		}
	}
}

func judgeFields(f *http2.MetaHeadersFrame) (want verdict, ok bool) {
	agent, grpc, id, path, method := false, false, false, "", ""
	for _, field := range f.Fields {
		if len(field.Name) > maxHead || len(field.Value) > maxHead {
			return verdict{}, false
		}
		switch field.Name {
		case "user-agent":
			agent = agent || strings.EqualFold(strings.Trim(field.Value, " \t"), checker)
		case "content-type":
			v := field.Value
			grpc = v == "application/grpc" || strings.HasPrefix(v, "application/grpc+") || strings.HasPrefix(v, "application/grpc;")
		case "x-request-id":
			id = true
		case ":method":
			method = field.Value
		case ":path":
			path, _, _ = strings.Cut(field.Value, "?")
		}
	}
	switch check := !id && maybe(method, path, agent, grpc); {
	case f.Truncated:
		return verdict{}, false
	case !check || f.StreamID%2 == 0:
		return verdict{kind: pass}, true
	case grpc && method == "POST":
		return verdict{checkGRPC, f.StreamID}, true
	}
	return verdict{checkHTTP2, f.StreamID}, true
}

// FuzzProxyHeader: what is cut off is a header, whole, and no byte of what follows it.
func FuzzProxyHeader(f *testing.F) {
	seed(f, func(b []byte) []byte { return b })
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Add([]byte("PROXY TCP6 ::1 ::1 1 2\r\n\r\n"))
	f.Add([]byte(proxyV2 + "\x21\x11\x00\x0c"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rest, more := skipProxyHeader(b)
		if !bytes.HasSuffix(b, rest) || more && len(rest) != len(b) {
			t.Fatalf("%q: %q, %t", b, rest, more)
		}
		cut := string(b[:len(b)-len(rest)])
		v1 := strings.HasPrefix(cut, "PROXY ") && strings.Index(cut, "\r\n") == len(cut)-2 && len(cut) <= maxProxyV1
		v2 := strings.HasPrefix(cut, proxyV2) && len(cut) >= minProxyV2 && len(cut) == minProxyV2+int(cut[14])<<8+int(cut[15])
		if cut != "" && !v1 && !v2 {
			t.Errorf("%q was cut off", cut)
		}
		settles(t, b[:min(len(b), fuzzed)], fuzzPaths)
	})
}
