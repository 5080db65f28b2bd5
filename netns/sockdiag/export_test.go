package sockdiag

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

func put16(b []byte, n uint16) { binary.NativeEndian.PutUint16(b, n) }

func put32(b []byte, n uint32) { binary.NativeEndian.PutUint32(b, n) }

// ShrinkBuffer gives w the receive buffer of a node with the default rmem_max, whatever this machine's is.
func ShrinkBuffer(w *Watcher) error {
	var failed error
	err := w.conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 212992)
	})
	if err != nil {
		return err
	}
	return failed
}

// AwaitAnswer waits for an answer to no question.
func AwaitAnswer(d *Dumper) error {
	_, err := d.receive()
	return err
}
