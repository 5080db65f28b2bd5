package takeover

import (
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// HTTP/2's framing (RFC 9113), as far as a first request needs it.
const (
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

	frameData         = 0x0
	frameHeaders      = 0x1
	frameRSTStream    = 0x3
	frameSettings     = 0x4
	framePushPromise  = 0x5
	frameGoAway       = 0x7
	frameContinuation = 0x9

	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20

	frameHead     = 9
	tableSize     = 4096     // HPACK's dynamic table, where a server's SETTINGS have named no other
	maxHeaderList = 64 << 10 // indexed fields let a short block name a long list
)

type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

// cutFrame takes the first frame off b; whole is false where it has not come to its end yet.
func cutFrame(b []byte) (f frame, rest []byte, whole bool) {
	if len(b) < frameHead {
		return frame{}, b, false
	}
	end := frameHead + int(b[0])<<16 + int(b[1])<<8 + int(b[2])
	if len(b) < end {
		return frame{}, b, false
	}
	f = frame{kind: b[3], flags: b[4], stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31), payload: b[frameHead:end]}
	return f, b[end:], true
}

// classifyHTTP2 judges what follows the preface by the first request.
func classifyHTTP2(b []byte, healthPaths []string) verdict {
	for first := true; ; first = false {
		f, rest, whole := cutFrame(b)
		switch {
		case !whole:
			return verdict{}
		case first && f.kind != frameSettings:
			return verdict{kind: pass}
		}
		switch f.kind {
		case frameHeaders:
			return classifyRequest(f, rest, healthPaths)
		case frameData, frameRSTStream, framePushPromise, frameGoAway, frameContinuation: // none may come before a request
			return verdict{kind: pass}
		}
		b = rest
	}
}

// classifyRequest judges a request by its header block, once that has come whole.
func classifyRequest(f frame, rest []byte, healthPaths []string) verdict {
	block, ok := fragment(f)
	if !ok || f.stream%2 == 0 {
		return verdict{kind: pass}
	}
	block = slices.Clip(block) // what follows in the buffer is not this block's
	for last := f; last.flags&flagEndHeaders == 0; {
		var whole bool
		last, rest, whole = cutFrame(rest)
		switch {
		case !whole:
			return verdict{}
		case last.kind != frameContinuation || last.stream != f.stream:
			return verdict{kind: pass}
		}
		block = append(block, last.payload...)
	}
	r, ok := decode(block)
	switch {
	case !ok || !r.isCheck(healthPaths):
		return verdict{kind: pass}
	case r.grpc && r.method == "POST":
		return verdict{checkGRPC, f.stream}
	}
	return verdict{checkHTTP2, f.stream}
}

// fragment is the part of the header block that a HEADERS frame carries.
func fragment(f frame) (block []byte, ok bool) {
	b := f.payload
	if f.flags&flagPadded != 0 {
		if len(b) == 0 || int(b[0]) > len(b)-1 {
			return nil, false
		}
		b = b[1 : len(b)-int(b[0])]
	}
	if f.flags&flagPriority != 0 {
		if len(b) < 5 {
			return nil, false
		}
		b = b[5:]
	}
	return b, true
}

// request is what matters of a header block.
type request struct {
	method  string
	path    string // without the query
	checker bool   // it says that it is Envoy's health checker's
	id      bool   // it bears a request id
	grpc    bool   // its content is gRPC's
}

// decode reads a whole header block; ok is false where it is broken, or its list too long.
func decode(block []byte) (r request, ok bool) {
	size := uint32(0)
	var d *hpack.Decoder
	d = hpack.NewDecoder(tableSize, func(f hpack.HeaderField) {
		if size += f.Size(); size > maxHeaderList {
			d.SetEmitEnabled(false)
			return
		}
		r.read(f)
	})
	d.SetMaxStringLength(maxHead)
	if _, err := d.Write(block); err != nil {
		return r, false
	}
	return r, d.Close() == nil && size <= maxHeaderList
}

func (r *request) read(f hpack.HeaderField) {
	switch f.Name {
	case ":method":
		r.method = f.Value
	case ":path":
		r.path, _, _ = strings.Cut(f.Value, "?")
	case "user-agent":
		r.checker = r.checker || strings.EqualFold(strings.Trim(f.Value, " \t"), checker)
	case requestID:
		r.id = true
	case "content-type":
		kind, of := strings.CutPrefix(f.Value, "application/grpc")
		r.grpc = of && (kind == "" || kind[0] == '+' || kind[0] == ';')
	}
}

func (r *request) isCheck(healthPaths []string) bool {
	return !r.id && mayCheck(r.method, r.path, r.checker, r.grpc, healthPaths)
}
