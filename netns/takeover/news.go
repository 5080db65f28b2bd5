package takeover

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

const (
	gathering = 100 * time.Millisecond // of changes into one line: a round's answers come together
	sayEvery  = time.Second            // between lines on peers
	namedOnce = 5                      // peers that a line names
)

// herald says which peers have begun or ceased to answer, a line for all of a round: a Service can have thousands. It ends with
// ctx, and says then what is left.
func (ps *peers) herald(ctx context.Context) {
	var said time.Time
	for {
		select {
		case <-ps.news:
		case <-ctx.Done():
			ps.say()
			return
		}
		wait := time.NewTimer(max(gathering, time.Until(said.Add(sayEvery))))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
		ps.say()
		said = time.Now()
	}
}

// say tells what has changed since it was last said.
func (ps *peers) say() {
	var begun, ceased []netip.AddrPort
	var err error
	ps.mu.Lock()
	for _, p := range ps.byAddr {
		if p.health == p.said {
			continue
		}
		p.said = p.health
		if p.health == answers {
			begun = append(begun, p.addr)
		} else {
			ceased, err = append(ceased, p.addr), p.err
		}
	}
	known := len(ps.byAddr)
	ps.mu.Unlock()
	switch len(begun) {
	case 0:
	case 1:
		ps.log.Info("peer answers", "peer", begun[0])
	default:
		ps.log.Info("peers answer", named(begun, known)...)
	}
	switch len(ceased) {
	case 0:
	case 1:
		ps.log.Warn("peer does not answer", "peer", ceased[0], "error", err)
	default:
		ps.log.Warn("peers do not answer", append(named(ceased, known), slog.Any("one_error", err))...)
	}
}

// named counts peers, and names the first of them.
func named(all []netip.AddrPort, known int) []any {
	slices.SortFunc(all, netip.AddrPort.Compare)
	return []any{slog.Int("peers", len(all)), slog.Int("of", known), slog.Any("first", all[:min(len(all), namedOnce)])}
}
