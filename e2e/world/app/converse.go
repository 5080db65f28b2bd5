package app

import (
	"context"
	"strings"
	"time"

	"lameduck/e2e/world/talk"
)

// line is a way to exchange short texts.
type line interface {
	read() (string, error)
	write(text string) error
}

// converse answers each message of a session, "ID" or "ID DELAY", by "NAME ID"; to "ID watch ORDER" it sends that as the
// talk.Order says.
func converse(ctx context.Context, name string, b book, s *session, l line) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		text, err := l.read()
		if err != nil {
			return
		}
		id, rest, _ := strings.Cut(text, " ")
		answer := func() error { return l.write(name + " " + id) }
		b.request(id)
		if order, ok := strings.CutPrefix(rest, "watch "); ok {
			o, err := talk.ParseOrder(order)
			if err != nil {
				return
			}
			go func() { _ = o.CarryOut(ctx, answer) }()
			continue
		}
		if !s.answer(func() error {
			if delay, err := time.ParseDuration(rest); err == nil {
				<-time.After(delay)
			}
			return answer()
		}) {
			return
		}
	}
}
