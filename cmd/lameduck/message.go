package main

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// terminationLog is where Kubernetes reads a container's termination message; the kubelet mounts it into each.
const terminationLog = "/dev/termination-log"

// message is a container's termination message: each write takes the place of the one before.
type message struct {
	path   string
	logger *slog.Logger
}

// Write leaves the words in the file if it is there. Without Kubernetes it is not, and none is made: it would be a plain file
// in /dev.
func (m *message) Write(words []byte) (int, error) {
	err := leave(m.path, words)
	if err != nil && !os.IsNotExist(err) {
		m.logger.Warn("last words", "error", err)
	}
	return len(words), nil
}

// leave writes into a file that is there, whatever it is: a pipe that nobody reads must not stop us.
func leave(path string, words []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_ = file.SetWriteDeadline(time.Now().Add(outletPatience)) // a plain file has none, and needs none
	_, err = file.Write(words)
	return errors.Join(err, file.Close())
}
