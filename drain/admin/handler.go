package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"
)

// handler answers the admin paths. It reads nothing of a request but its method and its path.
type handler struct {
	backend Backend
	version string
	failed  atomic.Uint64 // health checks answered with 503
}

// ServeHTTP answers GET on the five paths. A body is never read, and its connection is closed.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if conn := connOf(r); r.ContentLength != 0 || conn != nil && conn.limiter.crowded() {
		w.Header().Set("Connection", "close")
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
		h.status(w)
	case "/metrics":
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		write(w, http.StatusOK, exposition(h.backend.Status(), h.failed.Load(), h.version))
	default:
		answer(w, http.StatusNotFound, "known paths: /healthz /livez /hold /status /metrics")
	}
}

func (h *handler) healthz(w http.ResponseWriter, r *http.Request) {
	failed := true
	switch reason := h.unwell(r.Context()); {
	case h.backend.Draining(): // asked last, since asking the application takes a while
		// Envoy fails the host at once on this header, without counting to its threshold (health_check filter).
		w.Header().Set("X-Envoy-Immediate-Health-Check-Fail", "1")
		answer(w, http.StatusServiceUnavailable, "draining")
	case reason != nil:
		answer(w, http.StatusServiceUnavailable, reason.Error())
	default:
		failed = false
		answer(w, http.StatusOK, "serving")
	}
	if failed {
		h.failed.Add(1)
	}
	// A source counts as told only when the answer has left.
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	if source, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		h.backend.Checked(source.Addr().Unmap(), failed)
	}
}

// unwell asks for the application's health, but not during a drain: there the answer is known.
func (h *handler) unwell(ctx context.Context) error {
	if h.backend.Draining() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, appHealthTimeout)
	defer cancel()
	return h.backend.AppHealth(ctx)
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
