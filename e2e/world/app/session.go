package app

import (
	"sync"
	"time"
)

// lastWord is how long a session may be silent before a graceful end closes it.
const lastWord = time.Second

// sessions are the conversations that outlive a request. A graceful end closes each of them between two messages.
type sessions struct {
	mu     sync.Mutex
	ending bool
	open   map[*session]bool
	wg     sync.WaitGroup
}

// session is one of them.
type session struct {
	all *sessions
	// hangUp ends it, and may be called while it is being read from.
	hangUp func()
	busy   bool // a message is being answered
}

// add begins a session; close ends it.
func (s *sessions) add(hangUp func()) *session {
	one := &session{all: s, hangUp: hangUp}
	s.wg.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[*session]bool)
	}
	s.open[one] = true
	return one
}

func (s *session) close() {
	s.all.mu.Lock()
	delete(s.all.open, s)
	s.all.mu.Unlock()
	s.all.wg.Done()
}

// answer answers one message, and tells whether the session goes on after it.
func (s *session) answer(f func() error) bool {
	s.setBusy(true)
	err := f()
	if last := s.setBusy(false); last {
		s.hangUp()
		return false
	}
	return err == nil
}

// setBusy tells whether all sessions are to end.
func (s *session) setBusy(busy bool) bool {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.busy = busy
	return s.all.ending
}

// end waits for the answers that are being given, hangs up on who is silent, and returns when no session is left.
func (s *sessions) end() {
	s.mu.Lock()
	idle := len(s.open) == 0
	s.mu.Unlock()
	if idle {
		return
	}
	<-time.After(lastWord)
	for _, one := range s.silent() {
		go one.hangUp()
	}
	s.wg.Wait()
}

// silent returns the sessions that nothing is being answered on; the others end after their answers.
func (s *sessions) silent() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	var silent []*session
	for one := range s.open {
		if !one.busy {
			silent = append(silent, one)
		}
	}
	return silent
}
