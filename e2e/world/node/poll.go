package node

import (
	"errors"
	"os"
	"time"
)

// errEnded says that what is waited for can no longer come.
var errEnded = errors.New("the process has ended")

// poll asks f each 20 ms until it returns nil or errEnded, at the longest for the timeout.
func poll(timeout time.Duration, f func() error) error {
	late := time.After(timeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-tick.C:
		case <-late:
			return err
		}
	}
}

// tail is the end of a file, for an error message.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-4096):])
}
