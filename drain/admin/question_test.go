package admin

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestChecksThatComeAtOnceShareAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q question
		var asked atomic.Int32
		unwell := errors.New("unwell")
		var work sync.WaitGroup
		for range 100 {
			work.Go(func() {
				err := q.ask(t.Context(), func(context.Context) error {
					asked.Add(1)
					time.Sleep(time.Second)
					return unwell
				})
				if !errors.Is(err, unwell) {
					t.Errorf("heard %v", err)
				}
			})
		}
		work.Wait()
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
		if err := q.ask(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Errorf("an old answer was heard: %v", err)
		}
	})
}

// The one who asks may leave, or run into an internal error: the others do not hear of it as the application's fault, nor wait for ever.
func TestCheckThatLeavesSpoilsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q question
		unwell := errors.New("unwell")
		slow := func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
				return unwell
			}
		}
		leaves, leave := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { _ = q.ask(leaves, slow) })
		synctest.Wait()
		work.Go(func() {
			if err := q.ask(t.Context(), slow); !errors.Is(err, unwell) {
				t.Errorf("the other heard %v", err)
			}
		})
		synctest.Wait()
		leave()
		work.Wait()

		work.Go(func() {
			defer func() { _ = recover() }()
			_ = q.ask(t.Context(), func(context.Context) error { time.Sleep(time.Second); panic("fault") })
		})
		synctest.Wait()
		if err := q.ask(t.Context(), slow); !errors.Is(err, errNoAnswer) {
			t.Errorf("beside a fault: %v", err)
		}
		if err := q.ask(t.Context(), slow); !errors.Is(err, unwell) {
			t.Errorf("after it: %v", err)
		}
		work.Wait()
	})
}
