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
	// outletPatience is how long the last lines may take at the exit, which is a second before the kubelet's SIGKILL at the
	// latest; the Event and the admin address's last answers may have taken their time of that second, too.
	outletPatience = 300 * time.Millisecond
)

// outlet writes lines from a goroutine of its own, so that a reader that has stopped (a full pipe, a dead log shim) stops
// nobody else: lines that find no place are dropped, counted, and told of when writing works again.
type outlet struct {
	to   io.Writer
	done chan struct{} // closed when all has been written

	mu    sync.Mutex
	lines chan []byte // closed by shut
	ended bool
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
	if !o.ended {
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

// shut takes no more; done is closed when all is written.
func (o *outlet) shut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended = true
		close(o.lines)
	}
}

// closeOutlets lets each outlet write what it has, in this order, since an earlier one may have something to say in a later
// one. It returns after outletPatience at the latest: the exit waits for no reader.
func closeOutlets(outlets ...*outlet) {
	timer := time.NewTimer(outletPatience)
	defer timer.Stop()
	late := false
	for _, o := range outlets {
		o.shut()
		if late {
			continue
		}
		select {
		case <-o.done:
		case <-timer.C:
			late = true
		}
	}
}
