package sockdiag

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// ProcDump does what Dumper.Dump does from /proc/thread-self/net/tcp and tcp6, for where sock_diag is refused. It tells
// less: no tcp_info, no cookie, no V6Only, and a listener's backlog (WQueue) is 0. It costs more: the kernel writes
// every socket out, and foreign ports are left out here.
func ProcDump(q Query, fn func(*Socket) bool) error {
	more := true
	for _, table := range [...]struct {
		path   string
		family uint8
	}{{"/proc/thread-self/net/tcp", unix.AF_INET}, {"/proc/thread-self/net/tcp6", unix.AF_INET6}} {
		if !more {
			break
		}
		file, err := os.Open(table.path)
		if table.family == unix.AF_INET6 && errors.Is(err, fs.ErrNotExist) {
			break // a kernel without IPv6
		}
		if err != nil {
			return fmt.Errorf("sockdiag: %w", err)
		}
		err = procTable(file, table.family, q, func(s *Socket) bool {
			more = fn(s)
			return more
		})
		file.Close()
		if err != nil {
			return fmt.Errorf("sockdiag: %s: %w", table.path, err)
		}
	}
	return nil
}

func procTable(r io.Reader, family uint8, q Query, fn func(*Socket) bool) error {
	lines := bufio.NewScanner(r)
	states := q.states()
	lines.Scan() // the names of the columns
	var s Socket
	for lines.Scan() {
		if err := parseProc(lines.Bytes(), family, &s); err != nil {
			return err
		}
		if s.State > NewSynRecv || states&Of(s.State) == 0 ||
			len(q.Ports) > 0 && !slices.Contains(q.Ports, s.Local.Port()) {
			continue
		}
		if !fn(&s) {
			return nil
		}
	}
	return lines.Err()
}

var errProcLine = errors.New("a line that is no socket")

// parseProc reads a line of /proc/net/tcp:
//
//	sl: local:port remote:port state tx_queue:rx_queue timer:when retransmits uid timeout inode ...
func parseProc(line []byte, family uint8, s *Socket) error {
	var column [10][]byte
	n := 0
	for field := range bytes.FieldsSeq(line) {
		if n == len(column) {
			break
		}
		column[n] = field
		n++
	}
	if n < len(column) {
		return errProcLine
	}
	*s = Socket{Family: family}
	var errs [6]error
	s.Local, errs[0] = procAddress(column[1], family)
	s.Remote, errs[1] = procAddress(column[2], family)
	state, err := procNumber(column[3], 16, 8)
	s.State, errs[2] = State(state), err
	tx, rx, _ := bytes.Cut(column[4], []byte(":"))
	s.WQueue, errs[3] = procNumber(tx, 16, 32)
	s.RQueue, errs[4] = procNumber(rx, 16, 32)
	s.Inode, errs[5] = procNumber(column[9], 10, 32)
	for _, err := range errs {
		if err != nil {
			return errProcLine
		}
	}
	return nil
}

func procNumber(b []byte, base, bits int) (uint32, error) {
	n, err := strconv.ParseUint(string(b), base, bits)
	return uint32(n), err
}

// procAddress reads an address that is written as 32-bit words in native order, each in network order in memory.
func procAddress(b []byte, family uint8) (netip.AddrPort, error) {
	host, tail, ok := bytes.Cut(b, []byte(":"))
	words := 1
	if family == unix.AF_INET6 {
		words = 4
	}
	if !ok || len(host) != 8*words {
		return netip.AddrPort{}, errProcLine
	}
	port, err := procNumber(tail, 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	var raw [16]byte
	for i := range words {
		word, err := procNumber(host[8*i:8*i+8], 16, 32)
		if err != nil {
			return netip.AddrPort{}, err
		}
		binary.NativeEndian.PutUint32(raw[4*i:], word)
	}
	addr, _ := address(family, raw[:])
	return netip.AddrPortFrom(addr, uint16(port)), nil
}
