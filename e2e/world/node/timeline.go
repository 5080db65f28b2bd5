package node

import (
	"sync"
	"time"
)

// timeline keeps what happened to a pod.
type timeline struct {
	mu    sync.Mutex
	marks []mark
}

type mark struct {
	at                      time.Time
	container, what, detail string
}

func (t *timeline) mark(container, what, detail string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marks = append(t.marks, mark{time.Now(), container, what, detail})
}

func (t *timeline) all() []mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]mark(nil), t.marks...)
}
