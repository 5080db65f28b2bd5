package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// handler answers each HTTP request with the application's name, after the delay that the query asks for, and a body that
// is the request's.
type handler struct {
	name     string
	book     book
	sessions *sessions
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "websocket" {
		h.converse(w, r)
		return
	}
	if strings.HasPrefix(r.UserAgent(), "Envoy/HC") {
		h.book.check(r.Proto)
	}
	h.book.request(r.Header.Get(ID)) // at the head: a body that is cut off has reached the application, too
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if delay, err := time.ParseDuration(r.URL.Query().Get("delay")); err == nil {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set(Header, h.name)
	if len(body) == 0 {
		body = fmt.Appendln(nil, "ok")
	}
	_, _ = w.Write(body)
}
