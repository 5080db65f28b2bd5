package netns

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// Counters are sums over the life of a network namespace, IPv4 and IPv6 together.
type Counters struct {
	InSegs  uint64 // Tcp: segments received, bad ones included
	OutRsts uint64 // Tcp: segments sent with RST
	// AbortOnClose and AbortOnData (TcpExt) count connections that were reset because the application closed them with
	// data unread, or because data came for a connection that it had closed.
	AbortOnClose, AbortOnData uint64
}

// Refused estimates the SYNs that the kernel refused between before and c.
func (c Counters) Refused(before Counters) uint64 {
	resets := c.OutRsts - before.OutRsts
	aborts := c.AbortOnClose - before.AbortOnClose + c.AbortOnData - before.AbortOnData
	if aborts > resets {
		return 0
	}
	return resets - aborts
}

// CounterReader reads the counters of one network namespace. It must not be used by two goroutines at once.
type CounterReader struct {
	snmp, netstat *os.File
	buf           []byte
}

// OpenCounters makes a reader for the network namespace of the calling thread; it stays there.
func OpenCounters() (*CounterReader, error) {
	snmp, err := os.Open("/proc/thread-self/net/snmp")
	if err != nil {
		return nil, fmt.Errorf("netns: counters: %w", err)
	}
	netstat, err := os.Open("/proc/thread-self/net/netstat")
	if err != nil {
		snmp.Close()
		return nil, fmt.Errorf("netns: counters: %w", err)
	}
	return &CounterReader{snmp: snmp, netstat: netstat, buf: make([]byte, 16<<10)}, nil
}

// Close releases the files.
func (r *CounterReader) Close() error { return errors.Join(r.snmp.Close(), r.netstat.Close()) }

// ReadSegs reads InSegs alone: one pread of a short file. If it has not moved, no segment has come.
func (r *CounterReader) ReadSegs() (uint64, error) {
	var segs uint64
	err := r.read(r.snmp, "Tcp:", column{"InSegs", &segs})
	return segs, err
}

// Read reads all of them. Two files are read one after the other, so they may be a few microseconds apart.
func (r *CounterReader) Read() (Counters, error) {
	var c Counters
	err := r.read(r.snmp, "Tcp:", column{"InSegs", &c.InSegs}, column{"OutRsts", &c.OutRsts})
	if err == nil {
		err = r.read(r.netstat, "TcpExt:",
			column{"TCPAbortOnClose", &c.AbortOnClose}, column{"TCPAbortOnData", &c.AbortOnData})
	}
	return c, err
}

// column is a counter by its kernel name: kernels add columns in between.
type column struct {
	name  string
	value *uint64
}

func (r *CounterReader) read(file *os.File, group string, columns ...column) error {
	for {
		n, err := file.ReadAt(r.buf, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("netns: counters: %w", err)
		}
		if n < len(r.buf) {
			if err := parseCounters(r.buf[:n], group, columns); err != nil {
				return fmt.Errorf("netns: %s: %w", file.Name(), err)
			}
			return nil
		}
		r.buf = make([]byte, 2*len(r.buf))
	}
}

// parseCounters reads the group's two lines, of names and of values.
func parseCounters(text []byte, group string, columns []column) error {
	names, rest, ok := findLine(text, group)
	values, _, again := findLine(rest, group)
	if !ok || !again {
		return fmt.Errorf("no pair of lines %s", group)
	}
	found := 0
	for {
		var name, value []byte
		name, names = nextField(names)
		value, values = nextField(values)
		if len(name) == 0 || len(value) == 0 {
			break
		}
		for _, c := range columns {
			if string(name) != c.name {
				continue
			}
			n, err := strconv.ParseUint(string(value), 10, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			*c.value = n
			found++
		}
	}
	if found != len(columns) {
		return fmt.Errorf("%d of %d columns in %s", found, len(columns), group)
	}
	return nil
}

// findLine returns what follows prefix in the first line that begins with it, and the lines after that one.
func findLine(text []byte, prefix string) (line, rest []byte, ok bool) {
	for len(text) > 0 {
		line, text, _ = bytes.Cut(text, []byte("\n"))
		if tail, found := bytes.CutPrefix(line, []byte(prefix)); found {
			return tail, text, true
		}
	}
	return nil, nil, false
}

func nextField(b []byte) (field, rest []byte) {
	b = bytes.TrimLeft(b, " ")
	if end := bytes.IndexByte(b, ' '); end >= 0 {
		return b[:end], b[end:]
	}
	return b, nil
}
