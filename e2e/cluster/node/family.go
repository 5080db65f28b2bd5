package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// family is the node's children. PID 1 waits for all of them in one place: orphans of containers are among them.
type family struct {
	mu      sync.Mutex
	daemons map[int]daemon
}

func newFamily() *family { return &family{daemons: make(map[int]daemon)} }

func (f *family) start(o Options, d daemon) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	process, err := d.start(o)
	if err != nil {
		return err
	}
	f.daemons[process.Pid] = d
	return process.Release()
}

// bury waits for those that have died. The death of a daemon is an error that tells its last lines.
func (f *family) bury(o Options) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || pid == 0:
			return nil
		default:
			if d, ok := f.daemons[pid]; ok {
				return fmt.Errorf("%s has ended (status %d, signal %d), its log says:\n%s",
					d.name, status.ExitStatus(), status.Signal(), tail(logOf(o, d.name), 12))
			}
		}
	}
}

// tail returns a file's last lines.
func tail(path string, lines int) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}
