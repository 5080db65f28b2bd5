package admin

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The calls of grpc.health.v1.Health (grpc/grpc-proto, grpc/health/v1/health.proto).
//
// They are written by hand: every name gets the same answer, so of a request nothing is read, and the answers are a few
// bytes. connectrpc.com/grpchealth v1.5.0 has no List, would bring 3.9 MB of binary and 2.8 MB of resident memory
// (10.6 MB instead of 7.8 MB idle), and two more protocols to whoever can send to this port.
const (
	callCheck = "/grpc.health.v1.Health/Check"
	callWatch = "/grpc.health.v1.Health/Watch"
	callList  = "/grpc.health.v1.Health/List"
)

const (
	// maxMessage bounds a request: it holds a service's name.
	maxMessage = 4 << 10
	// maxWatches bounds the calls of Watch at once. Envoy and the kubelet ask by Check.
	maxWatches = 256
)

// The codes of gRPC that are answered.
const (
	codeOK                = 0
	codeInvalidArgument   = 3
	codeResourceExhausted = 8
	codeUnavailable       = 14
)

// isCall tells whether a request is one of the three calls, the only ones that may be POST. They read, too.
func isCall(r *http.Request) bool {
	switch r.RequestURI {
	case callCheck, callWatch, callList:
	default:
		return false
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return r.Method == http.MethodPost && r.ProtoMajor == 2 && (kind == "application/grpc" || kind == "application/grpc+proto")
}

// call answers a call. Every name, the empty one too, gets the same answer: a pod ends as a whole, and NOT_FOUND, which
// the protocol has for a name that is not served, would fail a well host where a checker's service_name is set.
func (h *handler) call(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Cache-Control", "no-store")
	// The message is read to its end, since an answer before that would reset the stream.
	if n, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxMessage+1)); err != nil || n > maxMessage {
		finish(w, codeInvalidArgument, "no message of at most 4096 bytes has come in time")
		return
	}
	switch r.RequestURI {
	case callWatch:
		h.watch(w, r)
		return
	case callList:
		_, _ = w.Write(listed(h.judge(r.Context())))
	default:
		v := h.judge(r.Context())
		v.failAtOnce(w.Header())
		_, _ = w.Write(message(v))
		h.answered(w, r, v)
	}
	finish(w, codeOK, "")
}

// watch tells the health at once and at each change: at the trigger, and where another check finds the application well or
// unwell. It asks nobody later on, so it wakes nobody.
func (h *handler) watch(w http.ResponseWriter, r *http.Request) {
	select {
	case h.watches <- struct{}{}:
		defer func() { <-h.watches }()
	default:
		finish(w, codeResourceExhausted, "too many calls of Watch; Check is answered")
		return
	}
	control := http.NewResponseController(w)
	h.judge(r.Context())
	begun := h.backend.Begun()
	for said, first := (verdict{}), true; ; first = false {
		v, changed := h.present()
		if first || v != said {
			_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
			v.failAtOnce(w.Header())
			if _, err := w.Write(message(v)); err != nil {
				return
			}
			h.answered(w, r, v)
			_ = control.SetWriteDeadline(time.Time{})
			said = v
		}
		select {
		case <-begun:
			begun = nil
		case <-changed:
		case <-r.Context().Done():
			finish(w, codeUnavailable, "lameduck is leaving")
			return
		}
	}
}

// present is the verdict as far as it is known, and what is closed when the application's part of it changes.
func (h *handler) present() (verdict, <-chan struct{}) {
	well, changed := h.news.hear()
	draining := h.backend.Draining()
	return verdict{well: well && !draining, draining: draining}, changed
}

// message is a HealthCheckResponse{status = 1}, with its length before it.
func message(v verdict) []byte {
	return append([]byte{0, 0, 0, 0, 2}, field(v)...)
}

// listed is a HealthListResponse{statuses = 1: {"": HealthCheckResponse}}, with its length before it.
func listed(v verdict) []byte {
	return append([]byte{0, 0, 0, 0, 8, 0x0a, 6, 0x0a, 0, 0x12, 2}, field(v)...)
}

// field is the field status of a HealthCheckResponse: SERVING = 1, NOT_SERVING = 2.
func field(v verdict) []byte {
	if v.well {
		return []byte{0x08, 1}
	}
	return []byte{0x08, 2}
}

// finish ends a call.
func finish(w http.ResponseWriter, code int, reason string) {
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(code))
	if reason != "" {
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", reason)
	}
	_ = http.NewResponseController(w).Flush() // what is flushed has no content-length, which a stream must not have
}
