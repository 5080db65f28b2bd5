package takeover

import (
	"slices"
	"time"
)

// keptFor bounds how long peers that a name no longer means stand in for those that it means now.
const keptFor = 10 * time.Second

// keep lets peers that a name no longer means stand in while none that it means now answers. A name can change as a whole,
// each second if its server hands out one address at a time: its ports would be released until the new ones are probed.
// Who gives a target its peers knows that those that left are ending: they never stand in. ps.mu is held.
func (ps *peers) keep(t *target, gone []member) {
	if t.Given || slices.ContainsFunc(t.peers, member.answers) {
		ps.dismiss(t)
		return
	}
	kept := slices.DeleteFunc(slices.Concat(t.former, gone), func(m member) bool {
		return !m.answers() || slices.Contains(t.peers, m)
	})
	if len(t.former) == 0 {
		t.until = time.Now().Add(keptFor)
	}
	left := t.former
	t.former = kept
	ps.forget(left)
}

// settle ends the standing in for a peer that answers now; ps.mu is held.
func (ps *peers) settle(p *peer) {
	for _, t := range ps.targets {
		if len(t.former) > 0 && slices.ContainsFunc(t.peers, func(m member) bool { return m.peer == p }) {
			ps.dismiss(t)
		}
	}
}

// dismiss ends the standing in; ps.mu is held.
func (ps *peers) dismiss(t *target) {
	left := t.former
	t.former = nil
	ps.forget(left)
}

// forget drops those of the peers that no target has any more; ps.mu is held.
func (ps *peers) forget(left []member) {
	for _, m := range left {
		if !slices.ContainsFunc(ps.targets, func(t *target) bool { return t.has(m.peer) }) {
			delete(ps.byAddr, m.addr)
		}
	}
}

func (t *target) has(p *peer) bool {
	is := func(m member) bool { return m.peer == p }
	return slices.ContainsFunc(t.peers, is) || slices.ContainsFunc(t.former, is)
}

func (m member) answers() bool { return m.health == answers }
