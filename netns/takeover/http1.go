package takeover

import (
	"bytes"
	"strings"
)

const maxMethod = 32

// classifyHTTP1 judges a request by its head.
func classifyHTTP1(b []byte, healthPaths []string) kind {
	crlf := []byte("\r\n")
	line, rest, complete := bytes.Cut(b, crlf)
	method, path, ok := requestLine(line, complete)
	switch {
	case !ok:
		return pass
	case !complete:
		return undecided
	}
	agent := false
	for {
		line, rest, complete = bytes.Cut(rest, crlf)
		switch {
		case !complete:
			return undecided
		case len(line) == 0 && mayCheck(string(method), string(path), agent, false, healthPaths): // the end of the head
			return checkHTTP1
		case len(line) == 0:
			return pass
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || !isToken(name) || bytes.IndexByte(value, '\n') >= 0 {
			return pass // not for us to judge
		}
		switch {
		case equalFold(name, "user-agent") && equalFold(bytes.Trim(value, " \t"), checker):
			agent = true
		case equalFold(name, requestID):
			return pass
		}
	}
}

// requestLine finds the method and the path of an HTTP/1 request; ok is false where the line is not its first, and cannot
// become it.
func requestLine(line []byte, complete bool) (method, path []byte, ok bool) {
	method, rest, more := bytes.Cut(line, []byte{' '})
	if len(method) > maxMethod || !isToken(method) {
		return nil, nil, false
	}
	target, version, most := bytes.Cut(rest, []byte{' '})
	if !more || !most {
		return nil, nil, !complete && isTarget(target)
	}
	if len(target) == 0 || !isTarget(target) {
		return nil, nil, false
	}
	const want = "HTTP/1."
	n := min(len(version), len(want))
	if string(version[:n]) != want[:n] || len(version) > len(want)+2 { // a digit, and a CR whose LF has not come
		return nil, nil, false
	}
	if complete && len(version) != len(want)+1 {
		return nil, nil, false
	}
	return method, pathOf(target), true
}

// isToken tells whether b is a token (RFC 9110, 5.6.2).
func isToken(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return len(b) > 0
}

// isTarget tells whether no byte of b is forbidden in a request target.
func isTarget(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

func equalFold(b []byte, s string) bool {
	return len(b) == len(s) && bytes.EqualFold(b, []byte(s))
}
