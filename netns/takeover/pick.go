package takeover

import (
	"math/rand/v2"
	"slices"
)

// pick chooses the less busy of two random peers that answer, near ones first, and counts a connection to it; nil: none.
func (ps *peers) pick(port uint16, tried []*peer) *peer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var some [32]*peer
	usable := some[:0]
	for p := range ps.of(port) {
		if p.health == answers && !slices.Contains(tried, p) && !slices.Contains(usable, p) {
			usable = append(usable, p)
		}
	}
	if slices.ContainsFunc(usable, func(p *peer) bool { return p.near }) {
		usable = slices.DeleteFunc(usable, func(p *peer) bool { return !p.near })
	}
	if len(usable) == 0 {
		return nil
	}
	i := rand.IntN(len(usable))
	p := usable[i]
	if len(usable) > 1 {
		if q := usable[(i+1+rand.IntN(len(usable)-1))%len(usable)]; q.open < p.open {
			p = q
		}
	}
	p.open++
	return p
}

// done takes back what pick counted.
func (ps *peers) done(p *peer) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.open--
}
