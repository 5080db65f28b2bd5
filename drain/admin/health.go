package admin

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
)

// verdict is what a health check is answered.
type verdict struct {
	well     bool
	draining bool
	reason   string
}

// judge decides what a health check is answered now.
func (h *handler) judge(ctx context.Context) verdict {
	unwell := h.unwell(ctx)
	switch {
	case h.backend.Draining(): // asked last, since asking the application takes a while
		return verdict{draining: true, reason: "draining"}
	case unwell != nil:
		h.news.tell(false)
		return verdict{reason: unwell.Error()}
	}
	h.news.tell(true)
	return verdict{well: true, reason: "serving"}
}

// unwell asks for the application's health, but not during a drain: there the answer is known.
func (h *handler) unwell(ctx context.Context) error {
	if h.backend.Draining() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, appHealthTimeout)
	defer cancel()
	return h.health.ask(ctx, h.backend.AppHealth)
}

// failAtOnce has Envoy fail the host on this answer, without counting to its threshold (health_check filter).
func (v verdict) failAtOnce(header http.Header) {
	if v.draining {
		header.Set("X-Envoy-Immediate-Health-Check-Fail", "1")
	}
}

// answered enters a check into the ledger: a source counts as told only once the answer has left.
func (h *handler) answered(w http.ResponseWriter, r *http.Request, v verdict) {
	h.checks.Add(1)
	if !v.well {
		h.failed.Add(1)
	}
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	source, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return
	}
	h.backend.Checked(source, !v.well)
	if conn := connOf(r); conn != nil {
		conn.whenClosed(func() { h.backend.CheckerLeft(source) })
	}
}

// news is what the last check found of the application, for those who watch: so a Watch polls nothing.
type news struct {
	mu      sync.Mutex
	unwell  bool
	changed chan struct{} // closed at a change; nil where nobody waits
}

func (n *news) tell(well bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unwell == !well {
		return
	}
	n.unwell = !well
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// hear returns what is known, and a channel that is closed when it changes.
func (n *news) hear() (well bool, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return !n.unwell, n.changed
}
