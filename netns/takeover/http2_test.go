package takeover

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const grpcPath = "/grpc.health.v1.Health/Check"

// speak is what an HTTP/2 client sends first: the preface, its SETTINGS, and what say writes.
func speak(say func(f *http2.Framer)) []byte {
	b := bytes.NewBufferString(preface)
	f := http2.NewFramer(b, nil)
	f.AllowIllegalWrites = true
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	say(f)
	return b.Bytes()
}

// fields encodes pairs of names and values.
func fields(pairs ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(pairs); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return b.Bytes()
}

// asks is a request's header block: a GET of the path, and more fields.
func asks(path string, more ...string) []byte {
	return fields(append([]string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", path}, more...)...)
}

// calls is a gRPC call's header block.
func calls(path string, more ...string) []byte {
	return fields(append([]string{":method", "POST", ":scheme", "http", ":path", path, "content-type", "application/grpc"}, more...)...)
}

// call2 is a client's first bytes with one gRPC call, on stream 1; a content-type in more is the one that counts.
func call2(path string, more ...string) []byte {
	return speak(func(f *http2.Framer) { _ = f.WriteHeaders(headers(1, calls(path, more...))) })
}

// by2 is a client's first bytes with one request of another method, on stream 1.
func by2(method, path string, more ...string) []byte {
	block := fields(append([]string{":method", method, ":scheme", "http", ":path", path}, more...)...)
	return speak(func(f *http2.Framer) { _ = f.WriteHeaders(headers(1, block)) })
}

// headers is a request's only frame.
func headers(stream uint32, block []byte) http2.HeadersFrameParam {
	return http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true, EndStream: true}
}

// request2 is a client's first bytes with one request, on stream 1.
func request2(path string, more ...string) []byte {
	return speak(func(f *http2.Framer) { _ = f.WriteHeaders(headers(1, asks(path, more...))) })
}

var envoyCheck2 = func() []byte { return request2("/healthz", "user-agent", "Envoy/HC") }

func TestOnlyHealthChecksByHTTP2AreFailed(t *testing.T) {
	fail, grpc := verdict{checkHTTP2, 1}, verdict{checkGRPC, 1}
	relay, more := verdict{kind: pass}, verdict{}
	for name, c := range map[string]struct {
		sent []byte
		want verdict
	}{
		"the preface alone":                  {[]byte(preface), more},
		"half the preface":                   {[]byte(preface[:10]), more},
		"all but the last byte":              {envoyCheck2()[:len(envoyCheck2())-1], more},
		"Envoy's check":                      {envoyCheck2(), fail},
		"a user that says it is Envoy's":     {request2("/", "x-request-id", "1", "user-agent", "Envoy/HC"), relay},
		"in any case":                        {request2("/", "user-agent", "ENVOY/hc"), fail},
		"a longer agent":                     {request2("/", "user-agent", "Envoy/HC2"), relay},
		"the agent in another field":         {request2("/", "x-agent", "Envoy/HC"), relay},
		"a health path":                      {request2("/ready"), fail},
		"a health path with a query":         {request2("/ready?full=1"), fail},
		"C33: a user's GET of a health path": {request2("/ready", "x-request-id", "7"), relay},
		"below a health path":                {request2("/ready/x"), relay},
		"another path":                       {request2("/"), relay},
		"gRPC":                               {call2("/any", "user-agent", "Envoy/HC"), grpc},
		"gRPC with a codec":                  {call2("/any", "user-agent", "Envoy/HC", "content-type", "application/grpc+proto"), grpc},
		"gRPC with a parameter":              {call2("/any", "user-agent", "Envoy/HC", "content-type", "application/grpc;x=y"), grpc},
		"gRPC-Web":                           {call2("/any", "user-agent", "Envoy/HC", "content-type", "application/grpc-web"), fail},
		"gRPC of a user that says it":        {call2(grpcPath, "user-agent", "Envoy/HC", "x-request-id", "1"), relay},
		"C33: a client's own gRPC check":     {call2(grpcPath, "x-request-id", "1"), relay},
		"a gRPC check of nobody's":           {call2(grpcPath), relay},
		"a gRPC call of a health path":       {call2("/a.S/Ready"), grpc},
		"C33: a client's gRPC call of it":    {call2("/a.S/Ready", "x-request-id", "1"), relay},
		"gRPC's content by GET":              {request2("/", "user-agent", "Envoy/HC", "content-type", "application/grpc"), fail},
		"an agent's POST":                    {by2("POST", "/", "user-agent", "Envoy/HC"), fail},
		"a POST of a health path":            {by2("POST", "/ready"), relay},
		"HAProxy's OPTIONS of a health path": {by2("OPTIONS", "/ready"), fail},
		"an agent's CONNECT":                 {by2("CONNECT", "/", "user-agent", "Envoy/HC"), relay},
		"a WebSocket on a health path":       {by2("CONNECT", "/ready", ":protocol", "websocket"), relay},
		"no method":                          {by2("", "/ready", "user-agent", "Envoy/HC"), relay},
		"a block that is no HPACK":           {speak(func(f *http2.Framer) { _ = f.WriteHeaders(headers(1, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})) }), relay},
		"a block that is cut off":            {speak(func(f *http2.Framer) { _ = f.WriteHeaders(headers(1, asks("/", "user-agent", "Envoy/HC")[:20])) }), relay},
		"a table of more than 4 KiB": {speak(func(f *http2.Framer) {
			_ = f.WriteHeaders(headers(1, append([]byte{0x3f, 0xe2, 0x1f}, asks("/ready")...)))
		}), relay},
		"a list that grows beyond all bounds": {bomb(), relay},
		"no SETTINGS":                         {[]byte(preface + string(envoyCheck2()[len(preface)+15:])), relay},
		"SETTINGS, and the request's reset":   {speak(func(f *http2.Framer) { _ = f.WriteRSTStream(1, http2.ErrCodeCancel) }), relay},
		"SETTINGS, and the end":               {speak(func(f *http2.Framer) { _ = f.WriteGoAway(0, http2.ErrCodeNo, nil) }), relay},
		"SETTINGS, and a promise": {speak(func(f *http2.Framer) {
			_ = f.WriteRawFrame(http2.FramePushPromise, flagEndHeaders, 1, []byte{0, 0, 0, 3})
		}), relay},
		"the reserved bit of the stream": {speak(func(f *http2.Framer) { _ = f.WriteHeaders(headers(1<<31|1, asks("/ready"))) }), fail},
		"SETTINGS, and data":             {speak(func(f *http2.Framer) { _ = f.WriteData(1, true, nil) }), relay},
		"SETTINGS, and a continuation":   {speak(func(f *http2.Framer) { _ = f.WriteContinuation(1, true, asks("/ready")) }), relay},
		"padding longer than its frame": {speak(func(f *http2.Framer) {
			_ = f.WriteRawFrame(http2.FrameHeaders, flagPadded|flagEndHeaders, 1, []byte{9, 0x82})
		}), relay},
		"padding without a length": {speak(func(f *http2.Framer) { _ = f.WriteRawFrame(http2.FrameHeaders, flagPadded|flagEndHeaders, 1, nil) }), relay},
		"half a priority": {speak(func(f *http2.Framer) {
			_ = f.WriteRawFrame(http2.FrameHeaders, flagPriority|flagEndHeaders, 1, []byte{0, 0})
		}), relay},
		"no stream":                          {speak(func(f *http2.Framer) { _ = f.WriteHeaders(headers(0, asks("/ready"))) }), relay},
		"a server's stream":                  {speak(func(f *http2.Framer) { _ = f.WriteHeaders(headers(2, asks("/ready"))) }), relay},
		"the continuation of another stream": {continued(3, false), relay},
		"a frame amid a header block":        {continued(1, true), relay},
	} {
		t.Run(name, func(t *testing.T) {
			if got := classify(c.sent, []string{"/ready", "/a.S/Ready"}); got != c.want {
				t.Errorf("%q: %+v, not %+v", c.sent, got, c.want)
			}
		})
	}
}

// continued is a check whose header block goes on in a frame of the given stream, perhaps with another frame between.
func continued(stream uint32, between bool) []byte {
	block := asks("/ready")
	return speak(func(f *http2.Framer) {
		first := headers(1, block[:3])
		first.EndHeaders = false
		_ = f.WriteHeaders(first)
		if between {
			_ = f.WritePing(false, [8]byte{})
		}
		_ = f.WriteContinuation(stream, true, block[3:])
	})
}

// bomb names a field of 4,000 bytes, and then the same by one byte each: a list of megabytes.
func bomb() []byte {
	block := fields(":path", "/ready", "x", strings.Repeat("b", 4000))
	return speak(func(f *http2.Framer) {
		_ = f.WriteHeaders(headers(1, append(block, bytes.Repeat([]byte{0x80 | 62}, 4000)...)))
	})
}

// What little bytes can ask for much is not unfolded: the memory is a few times the bytes'.
func TestJudgingIsBoundedByWhatIsLookedAt(t *testing.T) {
	for name, sent := range map[string][]byte{"bomb": bomb(), "continuations": manyContinuations(), "frames": manyFrames()} {
		if len(sent) > maxHead {
			t.Fatalf("%s: %d bytes are not even looked at", name, len(sent))
		}
		const runs = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			classify(sent, nil)
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) / runs; n > 4*maxHead {
			t.Errorf("%s: %d bytes allocated for %d", name, n, len(sent))
		}
	}
}

// manyContinuations is as many frames of one block as are looked at.
func manyContinuations() []byte {
	return speak(func(f *http2.Framer) {
		p := headers(1, nil)
		p.EndHeaders = false
		_ = f.WriteHeaders(p)
		for range (maxHead - 60) / 10 {
			_ = f.WriteContinuation(1, false, []byte{0x82})
		}
		_ = f.WriteContinuation(1, true, nil)
	})
}

// manyFrames is as many empty frames as are looked at, and no request.
func manyFrames() []byte {
	return speak(func(f *http2.Framer) {
		for range maxHead/9 - 5 {
			_ = f.WriteSettings()
		}
	})
}
