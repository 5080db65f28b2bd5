package admin

import (
	"context"
	"errors"
	"sync"
)

// question lets checks that come at once share one answer: each would else ask the application by a connection of its own.
type question struct {
	mu    sync.Mutex
	asked *inquiry // under way, or nil
}

type inquiry struct {
	done chan struct{} // closed when the answer is there
	err  error
}

// ask returns what f finds, or what a question that is under way finds, unless who asked that has left.
func (q *question) ask(ctx context.Context, f func(context.Context) error) error {
	for {
		q.mu.Lock()
		other := q.asked
		if other == nil {
			own := &inquiry{done: make(chan struct{}), err: errNoAnswer}
			q.asked = own
			q.mu.Unlock()
			defer q.tell(own)
			own.err = f(ctx)
			if errors.Is(ctx.Err(), context.Canceled) {
				own.err = context.Canceled // whatever was found: it may not have been looked at
			}
			return own.err
		}
		q.mu.Unlock()
		select {
		case <-other.done:
			if !errors.Is(other.err, context.Canceled) {
				return other.err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errNoAnswer is what the others hear where asking has panicked.
var errNoAnswer = errors.New("the application's health cannot be asked")

func (q *question) tell(i *inquiry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = nil
	close(i.done)
}
