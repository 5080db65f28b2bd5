package app

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// handler answers each HTTP request with the application's name, after the delay that the query asks for.
type handler struct {
	name string
	book book
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.UserAgent(), "Envoy/HC") {
		h.book.check(r.Proto)
	}
	h.book.request(r.Header.Get(ID))
	if delay, err := time.ParseDuration(r.URL.Query().Get("delay")); err == nil {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set(Header, h.name)
	_, _ = fmt.Fprintln(w, "ok")
}
