package cluster

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// steps tells what has been reached, and when.
type steps struct {
	log   io.Writer
	start time.Time
	mu    sync.Mutex
}

func newSteps(log io.Writer) *steps { return &steps{log: log, start: time.Now()} }

func (s *steps) reached(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.log, "%6.1f s  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}
