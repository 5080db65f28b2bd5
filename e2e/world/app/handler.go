package app

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

// handler answers each request with the application's name, after the delay that the query asks for.
type handler struct {
	name   string
	served *os.File // nil: not kept
}

func newHandler(name, served string) (*handler, error) {
	h := &handler{name: name}
	if served == "" {
		return h, nil
	}
	file, err := os.OpenFile(served, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	h.served = file
	return h, err
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Appended unbuffered, and before the answer: an application may be killed at any moment.
	if id := r.Header.Get(ID); id != "" && h.served != nil {
		_, _ = fmt.Fprintln(h.served, id)
	}
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
