package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lameduck/e2e/world"
	"lameduck/e2e/world/load"
)

// Load is open-loop requests to a backend, from the node, through the Gateway's Envoy.
type Load struct {
	// Start is when its first request was sent.
	Start time.Time
	end   chan error
	out   *bytes.Buffer
}

// StartLoad sends requests to a backend for a time, once it has answered one. It returns when the first is sent.
func (c *Cluster) StartLoad(ctx context.Context, envoy, backend string, stream world.Stream) (*Load, error) {
	config, err := json.Marshal(load.Config{Envoys: []string{envoy + "/" + backend}, Streams: []world.Stream{stream}})
	if err != nil {
		return nil, err
	}
	cmd := c.Command(ctx, c.Parts.World, "load")
	cmd.Stdin = bytes.NewReader(config)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		return nil, fmt.Errorf("load on %s: %s", backend, strings.TrimSpace(said.String()))
	}
	start, err := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	if err != nil {
		return nil, err
	}
	l := &Load{Start: time.Unix(0, start), end: make(chan error, 1), out: new(bytes.Buffer)}
	go func() {
		_, err := l.out.ReadFrom(lines)
		if ended := cmd.Wait(); ended != nil {
			err = fmt.Errorf("load on %s: %w: %s", backend, ended, said.String())
		}
		l.end <- err
	}()
	return l, nil
}

// Outcome waits for the last answer.
func (l *Load) Outcome() (world.Outcome, error) {
	var o world.Outcome
	if err := <-l.end; err != nil {
		return o, err
	}
	return o, json.Unmarshal(l.out.Bytes(), &o)
}
