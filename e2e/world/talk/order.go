package talk

import (
	"context"
	"fmt"
	"time"
)

// Order is what a client asks a stream for: Count messages, one each Every. Without Count it is endless; without Every it
// is silent after the first message, until it is ended.
type Order struct {
	Count int
	Every time.Duration
}

func (o Order) String() string { return fmt.Sprintf("%d %s", o.Count, o.Every) }

// ParseOrder reads what String wrote.
func ParseOrder(text string) (Order, error) {
	var o Order
	var every string
	if _, err := fmt.Sscan(text, &o.Count, &every); err != nil {
		return o, fmt.Errorf("order %q: %w", text, err)
	}
	var err error
	o.Every, err = time.ParseDuration(every)
	return o, err
}

// CarryOut sends what the order asks for, until the context ends.
func (o Order) CarryOut(ctx context.Context, send func() error) error {
	if err := send(); err != nil {
		return err
	}
	if o.Every <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for n := 1; o.Count == 0 || n < o.Count; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := send(); err != nil {
			return err
		}
	}
	return nil
}
