package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// handler answers the admin paths and gRPC's calls. It reads nothing of a request but its method, its path and its type.
type handler struct {
	backend Backend
	version string
	checks  atomic.Uint64 // health checks answered
	failed  atomic.Uint64 // those of them that failed
	news    news
	health  question
	watches chan struct{} // a place for each call of Watch
	reports chan struct{} // and for each status or metrics
}

// ServeHTTP answers GET on the five paths, and gRPC's calls. The body of a GET is never read, and its connection is closed.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	calls := isCall(r)
	if conn := connOf(r); r.ContentLength != 0 && !calls || conn != nil && conn.asks() {
		w.Header().Set("Connection", "close")
	}
	if calls {
		h.call(w, r)
		return
	}
	if r.ProtoMajor == 2 {
		_ = r.Body.Close() // what comes of it is dropped from here on; HTTP/1 would read it first
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		answer(w, http.StatusMethodNotAllowed, "only GET: nothing here can be changed over HTTP")
		return
	}
	switch r.URL.Path {
	case "/healthz":
		h.healthz(w, r)
	case "/livez":
		answer(w, http.StatusOK, "alive")
	case "/hold":
		h.hold(w, r)
	case "/status":
		h.report(w, h.status)
	case "/metrics":
		h.report(w, h.metrics)
	default:
		answer(w, http.StatusNotFound, "known paths: /healthz /livez /hold /status /metrics")
	}
}

func (h *handler) healthz(w http.ResponseWriter, r *http.Request) {
	v := h.judge(r.Context())
	v.failAtOnce(w.Header())
	code := http.StatusOK
	if !v.well {
		code = http.StatusServiceUnavailable
	}
	answer(w, code, v.reason)
	h.answered(w, r, v)
}

// hold waits. Its answer is 200 also when the server ends first: the kubelet takes anything else for a failed hook.
func (h *handler) hold(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	// Errors are left aside: a writer without a deadline has none to lift. (The read deadline is net/http's own business:
	// it ends when the request has been read.)
	_ = control.SetWriteDeadline(time.Time{})
	if conn := connOf(r); conn != nil && r.ProtoMajor == 1 {
		conn.hold()
		w.Header().Set("Connection", "close")
	}
	h.backend.Hold(r.Context())
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
	answer(w, http.StatusOK, "released")
}

// report answers with a body that grows with the pod's traffic, unless many such answers wait to be read.
func (h *handler) report(w http.ResponseWriter, body func(http.ResponseWriter)) {
	select {
	case h.reports <- struct{}{}:
		defer func() { <-h.reports }()
		body(w)
	default:
		answer(w, http.StatusServiceUnavailable, "busy: too many answers wait to be read")
	}
}

func (h *handler) metrics(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	write(w, http.StatusOK, exposition(h.backend.Status(), h.checks.Load(), h.failed.Load(), h.version))
}

func (h *handler) status(w http.ResponseWriter) {
	body, err := json.MarshalIndent(h.backend.Status(), "", "  ")
	if err != nil {
		answer(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, http.StatusOK, append(body, '\n'))
}

// answer writes one line of text.
func answer(w http.ResponseWriter, code int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	write(w, code, fmt.Appendln(nil, line))
}

func write(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that has gone needs no answer
}
