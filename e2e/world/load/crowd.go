package load

import (
	"context"
	"fmt"
	"net"
	"time"

	"lameduck/e2e/world"
)

// gather opens the crowd's connections and closes them all at once.
func gather(c world.Crowd, to string, start time.Time) error {
	if c.Count == 0 {
		return nil
	}
	<-time.After(time.Until(start.Add(c.From)))
	conns := make([]net.Conn, 0, c.Count)
	for range c.Count {
		conn, err := net.DialTimeout("tcp", to, 5*time.Second)
		if err != nil {
			return fmt.Errorf("the crowd's connection %d: %w", len(conns), err)
		}
		conns = append(conns, conn)
	}
	late := time.Since(start.Add(c.Until))
	if late > 0 {
		return fmt.Errorf("the crowd of %d was together %v too late", c.Count, late)
	}
	<-time.After(-late)
	for _, conn := range conns {
		_ = conn.Close()
	}
	return nil
}

// connect opens a connection and closes it again, as a TCP health check does. It returns the kind of failure, or "".
func connect(ctx context.Context, to string) string {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	switch {
	case ctx.Err() != nil:
		return "timeout"
	case err != nil:
		return "reset"
	}
	_ = conn.Close()
	return ""
}
