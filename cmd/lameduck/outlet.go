package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// outletLines bounds the lines that wait for a reader; a line of ours has some hundred bytes.
	outletLines = 512
	// outletPatience is how long the last lines may take at the exit.
	outletPatience = 500 * time.Millisecond
)

// outlet writes lines from a goroutine of its own, so that a reader that has stopped (a full pipe, a dead log shim) stops
// nobody else: lines that find no place are dropped, counted, and told of when writing works again.
type outlet struct {
	to   io.Writer
	done chan struct{} // closed when all has been written

	mu    sync.Mutex
	lines chan []byte // closed by close
	shut  bool
	lost  int
}

func newOutlet(to io.Writer) *outlet {
	o := &outlet{to: to, lines: make(chan []byte, outletLines), done: make(chan struct{})}
	go o.run()
	return o
}

// Write takes a line, and never blocks.
func (o *outlet) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.shut {
		select {
		case o.lines <- append([]byte(nil), line...):
		default:
			o.lost++
		}
	}
	return len(line), nil
}

func (o *outlet) run() {
	defer close(o.done)
	for line := range o.lines {
		_, _ = o.to.Write(line) // there is nowhere to say that it failed
		if n := o.takeLost(); n > 0 {
			fmt.Fprintf(o.to, "lameduck: %d lines were lost here: nobody read them\n", n)
		}
	}
}

func (o *outlet) takeLost() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) > outletLines/2 {
		return 0 // it would be told again and again
	}
	n := o.lost
	o.lost = 0
	return n
}

// close takes no more, and returns when all is written, or after outletPatience: the exit waits for no reader.
func (o *outlet) close() {
	o.mu.Lock()
	if !o.shut {
		o.shut = true
		close(o.lines)
	}
	o.mu.Unlock()
	timer := time.NewTimer(outletPatience)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
	}
}
