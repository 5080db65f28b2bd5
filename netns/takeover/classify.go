package takeover

import (
	"bytes"
	"slices"
)

// kind is what a connection is, as far as its first bytes tell.
type kind uint8

const (
	undecided  kind = iota // more bytes may tell
	pass                   // relayed
	checkHTTP1             // a health check: answered, as are the next two
	checkHTTP2
	checkGRPC
	lost // the client has gone: there is nobody to relay
)

// verdict is what the first bytes of a connection make of it.
type verdict struct {
	kind
	stream uint32 // of a check by HTTP/2: where its answer belongs
}

// isCheck tells whether the connection's first request is a health check.
func (v verdict) isCheck() bool {
	return v.kind == checkHTTP1 || v.kind == checkHTTP2 || v.kind == checkGRPC
}

const (
	checker   = "Envoy/HC"     // the user-agent of Envoy's health checker (docs: "health checking", HTTP health checking)
	requestID = "x-request-id" // Envoy adds it to what it forwards; its health checker does not
)

// mayCheck tells whether a request of this method and path, which bears no request id, may be a health check.
//
// Envoy's checker asks by the method that it is told, which may be any but CONNECT (health_check.proto, method). A health
// path is asked by others, which read only: GET, HEAD, or OPTIONS, HAProxy's default. What is called there by another
// method may be a client's that has not come through Envoy, and changes something. All of gRPC is POST.
func mayCheck(method, path string, agent, grpc bool, healthPaths []string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return agent || slices.Contains(healthPaths, path)
	case "POST":
		return agent || grpc && slices.Contains(healthPaths, path)
	case "PUT", "DELETE", "TRACE", "PATCH":
		return agent
	}
	return false
}

// classify judges the first bytes of a connection. A verdict other than undecided does not change as bytes are added.
func classify(b []byte, healthPaths []string) verdict {
	b, more := skipProxyHeader(b)
	switch {
	case more || len(b) == 0:
		return verdict{}
	case !agrees(b, preface):
		return verdict{kind: classifyHTTP1(b, healthPaths)}
	case len(b) < len(preface):
		return verdict{}
	}
	return classifyHTTP2(b[len(preface):], healthPaths)
}

// agrees tells whether b begins with s, or may yet.
func agrees(b []byte, s string) bool {
	n := min(len(b), len(s))
	return string(b[:n]) == s[:n]
}

// pathOf cuts a request target's query off, and of an absolute one (RFC 9112, 3.2.2) the scheme and the authority.
func pathOf(target []byte) []byte {
	path, _, _ := bytes.Cut(target, []byte{'?'})
	scheme, rest, absolute := bytes.Cut(path, []byte("://"))
	if !absolute || bytes.IndexByte(scheme, '/') >= 0 {
		return path
	}
	if i := bytes.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return []byte{'/'}
}
