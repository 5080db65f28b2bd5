package takeover

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
)

// treatment is what becomes of a connection.
type treatment string

const (
	failed  treatment = "failed"
	relays  treatment = "relayed"
	cutting treatment = "cut"
)

// framing is a row of doc.go's table.
type framing struct {
	sent []byte
	late []byte // sent once the relay of what was sent before has begun
	want treatment
}

func framings() map[string]framing {
	const (
		agent = "user-agent: Envoy/HC\r\n\r\n"
		get   = "GET /a HTTP/1.1\r\nhost: a\r\n\r\n"
	)
	request := request2("/a", "x-request-id", "1")
	check := envoyCheck2()
	all := map[string]framing{
		"HTTP/1.0":                                       {sent: []byte("GET /healthz HTTP/1.0\r\n" + agent), want: failed},
		"another method of Envoy's":                      {sent: []byte("OPTIONS * HTTP/1.1\r\n" + agent), want: failed},
		"a lower-case method":                            {sent: []byte("get /ready HTTP/1.1\r\n\r\n"), want: relays},
		"no method of Envoy's":                           {sent: []byte("CONNECT a:1 HTTP/1.1\r\n" + agent), want: relays},
		"a POST of a health path":                        {sent: []byte("POST /ready HTTP/1.1\r\ncontent-length: 0\r\n\r\n"), want: relays},
		"a user that says it is Envoy's checker":         {sent: []byte("GET / HTTP/1.1\r\nx-request-id: 1\r\n" + agent), want: relays},
		"HTTP/2: a user that says it is Envoy's checker": {sent: request2("/", "x-request-id", "1", "user-agent", checker), want: relays},
		"gRPC: a user that says it is Envoy's checker":   {sent: call2(grpcPath, "user-agent", checker, "x-request-id", "1"), want: relays},
		"an absolute target":                             {sent: []byte("GET http://backend:80/ready?x=/a HTTP/1.1\r\n\r\n"), want: failed},
		"an absolute target's root":                      {sent: []byte("GET HTTPS://ready HTTP/1.1\r\n\r\n"), want: relays},
		"a target in a query":                            {sent: []byte("GET /?http://a/ready HTTP/1.1\r\n\r\n"), want: relays},
		"a target in a path":                             {sent: []byte("GET /x://a/ready HTTP/1.1\r\n\r\n"), want: relays},
		"a path spelt otherwise":                         {sent: []byte("GET /%72eady HTTP/1.1\r\n\r\n"), want: relays},
		"an offer of h2c": {sent: []byte("GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\n" +
			"upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n" + agent), want: failed},
		"a user's offer of h2c, and a check on it": {sent: []byte("GET /a HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\n" +
			"upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n" + string(check)), want: relays},

		"a request behind a check":           {sent: []byte(envoyCheck + get), want: failed},
		"a check behind a request":           {sent: []byte(get + envoyCheck), want: relays},
		"a check later than a request":       {sent: []byte(get), late: []byte(envoyCheck), want: relays},
		"an obsolete folding of the agent":   {sent: []byte("GET /healthz HTTP/1.1\r\nuser-agent:\r\n Envoy/HC\r\n\r\n"), want: relays},
		"a folding before the agent":         {sent: []byte("GET /healthz HTTP/1.1\r\na: b\r\n c\r\n" + agent), want: relays},
		"LF alone":                           {sent: []byte(strings.ReplaceAll(envoyCheck, "\r", "")), want: relays},
		"an empty line first":                {sent: []byte("\r\n" + envoyCheck), want: relays},
		"a head of more than 8 KiB":          {sent: []byte("GET / HTTP/1.1\r\na: " + strings.Repeat("b", maxHead) + "\r\n" + agent), want: relays},
		"HTTP/2: a list of more than 64 KiB": {sent: bomb(), want: relays},
		"HTTP/2: a block of more than 8 KiB": {sent: request2("/ready", "a", strings.Repeat("~", 2*maxHead)), want: relays},

		"HTTP/2: a request behind a check": {sent: append(check[:len(check):len(check)], get2(3)...), want: failed},
		"HTTP/2: a check behind a request": {sent: append(request[:len(request):len(request)], check[len(preface)+15:]...), want: relays},
		"HTTP/2: on a later stream":        {sent: speak(func(f *http2.Framer) { _ = f.WriteHeaders(headers(77, asks("/ready"))) }), want: failed},
		"HTTP/2: other frames first": {sent: speak(func(f *http2.Framer) {
			_ = f.WriteSettingsAck()
			_ = f.WriteWindowUpdate(0, 1<<20)
			_ = f.WritePriority(3, http2.PriorityParam{StreamDep: 5, Weight: 9})
			_ = f.WritePing(false, [8]byte{1})
			_ = f.WriteRawFrame(http2.FramePriorityUpdate, 0, 0, []byte("\x00\x00\x00\x01u=1"))
			_ = f.WriteRawFrame(0xbb, 0xff, 9, []byte("grease"))
			_ = f.WriteHeaders(headers(1, asks("/ready")))
		}), want: failed},
		"HTTP/2: padding and priority": {sent: speak(func(f *http2.Framer) {
			p := headers(1, asks("/ready"))
			p.PadLength, p.Priority = 200, http2.PriorityParam{StreamDep: 3, Exclusive: true, Weight: 255}
			_ = f.WriteHeaders(p)
		}), want: failed},
		"HTTP/2: many continuations": {sent: speak(func(f *http2.Framer) {
			block, p := asks("/ready"), headers(1, nil)
			p.EndHeaders = false
			_ = f.WriteHeaders(p)
			for i := range block {
				_ = f.WriteContinuation(1, i == len(block)-1, block[i:i+1])
			}
		}), want: failed},

		"PROXY v1":                 {sent: []byte("PROXY TCP6 fd09::9 fd09::1 4711 8080\r\n" + envoyCheck), want: failed},
		"PROXY v1 of nobody":       {sent: []byte("PROXY UNKNOWN\r\n" + string(check)), want: failed},
		"PROXY v1, a request":      {sent: []byte("PROXY TCP4 10.9.9.9 10.9.0.1 4711 8080\r\n" + get), want: relays},
		"PROXY v1, twice":          {sent: []byte("PROXY UNKNOWN\r\nPROXY UNKNOWN\r\n" + envoyCheck), want: relays},
		"PROXY v1, too long":       {sent: []byte("PROXY UNKNOWN " + strings.Repeat("x", maxProxyV1) + "\r\n" + envoyCheck), want: relays},
		"PROXY v1 of another kind": {sent: []byte("PROXY UDP4 1.1.1.1 1.1.1.1 1 1\r\n" + envoyCheck), want: relays},
		"a method named PROXY":     {sent: []byte("PROXY /ready HTTP/1.1\r\n\r\n"), want: relays},
		"PROXY v2":                 {sent: []byte(proxyV2 + "\x21\x11\x00\x0c\x0a\x09\x09\x09\x0a\x09\x00\x01\x12\x67\x1f\x90" + envoyCheck), want: failed},
		"PROXY v2, local":          {sent: []byte(proxyV2 + "\x20\x00\x00\x00" + string(check)), want: failed},
		"PROXY v2, a request":      {sent: []byte(proxyV2 + "\x20\x00\x00\x00" + get), want: relays},
		"PROXY v3":                 {sent: []byte(proxyV2 + "\x30\x00\x00\x00" + envoyCheck), want: relays},
		"PROXY v2, longer than what is looked at": {
			sent: []byte(proxyV2 + "\x21\x11\xff\xff" + strings.Repeat("x", 0xffff) + envoyCheck), want: relays,
		},

		"silent for long, then a request": {late: []byte(get), want: relays},
		"silent for long, then HTTP/2":    {late: request, want: relays},
		"silent for long, then TLS":       {late: []byte("\x16\x03\x01\x00\x7e\x01"), want: relays},
		"a slow head":                     {sent: []byte(get[:20]), late: []byte(get[20:]), want: relays},
		"a head that never ends":          {sent: []byte(get[:20]), want: relays},
		"a slow head of 8 KiB":            {sent: []byte(get[:20]), late: []byte("a: " + strings.Repeat("b", 2*maxHead)), want: relays},
		"nothing":                         {want: relays},
	}
	for name, b := range map[string][]byte{"HTTP/1.1": []byte(envoyCheck), "HTTP/2": check} {
		all[name] = framing{sent: b, want: failed}
		all["silent for long, then a check by "+name] = framing{late: b, want: cutting}
		all["a slow check by "+name] = framing{sent: b[:20], late: b[20:], want: cutting}
	}
	return all
}

// get2 is a request on a stream of a connection that has begun.
func get2(stream uint32) []byte {
	var b bytes.Buffer
	_ = http2.NewFramer(&b, nil).WriteHeaders(headers(stream, asks("/a")))
	return b.Bytes()
}

// Each framing of a check, and of what is none, is treated as doc.go says.
func TestEachFramingIsTreatedAsDocumented(t *testing.T) {
	inPod(t, func(t *testing.T) {
		serveAt(t, at(peerIP, 9090), echo)
		w := run(t, Options{Targets: toPeer, HealthPaths: []string{"/ready"}}, nil)
		w.take(appListener)
		for name, f := range framings() {
			t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) { w.treats(t, f) })
		}
	})
}

// treats sends what the framing says, over a connection of its own, to a port whose peer echoes.
func (w *world) treats(t *testing.T, f framing) {
	before := w.taker.Stats()
	c := dialFrom(t, clientIP, appListener.Addr)
	defer c.Close()
	if _, err := c.Write(f.sent); err != nil {
		t.Fatal(err)
	}
	if f.late != nil {
		until(t, "the relay begins", func() bool { return w.taker.Stats().Relayed > before.Relayed })
		if _, err := c.Write(f.late); err != nil {
			t.Fatal(err)
		}
	}
	switch f.want {
	case failed:
		failsCheck(t, c)
		if e := w.await(CheckFailed); e.Remote != addrPort(c.LocalAddr()) {
			t.Errorf("event %+v", e)
		}
	case cutting:
		if b, err := io.ReadAll(c); !errors.Is(err, unix.ECONNRESET) || len(b) > len(f.sent) {
			t.Errorf("%q, %v", b, err)
		}
	case relays:
		_ = c.CloseWrite()
		if b, err := io.ReadAll(c); err != nil || !bytes.Equal(b, append(f.sent, f.late...)) {
			t.Errorf("%d bytes came back of %d and %d, %v", len(b), len(f.sent), len(f.late), err)
		}
	}
	until(t, "all is over", func() bool { return w.taker.Stats().Open == 0 })
	if ours, check := w.taker.Owns(appListener.Addr, addrPort(c.LocalAddr())); !ours || check != (f.want != relays) {
		t.Errorf("owned: %t, as a check: %t", ours, check)
	}
	after := w.taker.Stats()
	if n := after.Checks - before.Checks; (n == 1) != (f.want != relays) {
		t.Errorf("%d checks", n)
	}
	if n := after.Relayed - before.Relayed; (n == 1) != (f.want != failed) {
		t.Errorf("%d relayed", n)
	}
	w.quiet()
}

// failsCheck reads an answer of either protocol, which fails Envoy's check, and the connection's clean end.
func failsCheck(t *testing.T, c net.Conn) {
	t.Helper()
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", b, err)
	}
	if bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(b)), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get(immediateFail) != "1" || !r.Close || r.ContentLength != 0 {
			t.Errorf("%q", b)
		}
		return
	}
	frames, header := readFrames(t, b)
	if got := fmt.Sprint(frames); got != "[SETTINGS SETTINGS-ACK HEADERS-END GOAWAY]" || header[":status"] != "503" || header[immediateFail] != "1" {
		t.Errorf("%s, %v", got, header)
	}
}

// readFrames names the frames that a server has sent, and the fields of its answer.
func readFrames(t *testing.T, b []byte) (names []string, header map[string]string) {
	t.Helper()
	header = map[string]string{}
	fr := http2.NewFramer(io.Discard, bytes.NewReader(b))
	fr.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	for {
		f, err := fr.ReadFrame()
		if errors.Is(err, io.EOF) {
			return names, header
		}
		if err != nil {
			t.Fatal(err)
		}
		name := f.Header().Type.String()
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				name += "-ACK"
			}
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				name += "-END"
			}
			for _, field := range f.Fields {
				header[field.Name] = field.Value
			}
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo || f.LastStreamID == 0 {
				t.Errorf("%v", f)
			}
		}
		names = append(names, name)
	}
}
