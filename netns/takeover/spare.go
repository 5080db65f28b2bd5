package takeover

import (
	"sync"

	"golang.org/x/sys/unix"
)

const (
	spareFiles = 8
	lentAtOnce = 2 // net.FileListener copies the descriptor that it is given
)

// spare are descriptors held against the want of any, for what a takeover cannot do without: a port's socket, and to know
// of one peer that it answers.
type spare struct {
	mu     sync.Mutex
	fds    []int
	closed bool
}

// lend runs f, and where that fails for want of descriptors, again with two of the spare ones given up for it, and with
// two more, since whoever comes first has them.
func (s *spare) lend(f func() error) error {
	err := f()
	if !noFiles(err) {
		return err
	}
	defer s.fill()
	for noFiles(err) && s.give() {
		err = f()
	}
	return err
}

func (s *spare) give() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := max(0, len(s.fds)-lentAtOnce)
	lent := s.fds[rest:]
	for _, fd := range lent {
		unix.Close(fd)
	}
	s.fds = s.fds[:rest]
	return len(lent) > 0
}

// fill takes what is missing, as far as there is any.
func (s *spare) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && len(s.fds) < spareFiles {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC) // the cheapest
		if err != nil {
			return
		}
		s.fds = append(s.fds, fd)
	}
}

func (s *spare) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range s.fds {
		unix.Close(fd)
	}
	s.fds, s.closed = nil, true
}
