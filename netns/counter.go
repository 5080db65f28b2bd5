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

// Refused counts the SYNs that the kernel refused between before and c: the resets less the aborts. Measured on Linux
// 6.18, and held by a test: refused SYNs are counted exactly; connections closed with data unread or by SO_LINGER 0 are
// not counted, nor are those that got data after the close and before the other end acknowledged it. Two other things
// are counted, by one each: an unaccepted connection whose listener is closed, and data for a connection whose close was
// acknowledged (then the kernel has forgotten whose it was). A probe of a closed port counts as any SYN does.
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

// Read reads all of them. Two files are read one after the other, so they may be a few microseconds apart.
func (r *CounterReader) Read() (Counters, error) {
	var value [4]uint64
	err := r.read(r.snmp, "Tcp:", []string{"InSegs", "OutRsts"}, value[:2])
	if err == nil {
		err = r.read(r.netstat, "TcpExt:", []string{"TCPAbortOnClose", "TCPAbortOnData"}, value[2:])
	}
	return Counters{InSegs: value[0], OutRsts: value[1], AbortOnClose: value[2], AbortOnData: value[3]}, err
}

func (r *CounterReader) read(file *os.File, group string, names []string, values []uint64) error {
	for {
		n, err := file.ReadAt(r.buf, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("netns: counters: %w", err)
		}
		if n < len(r.buf) {
			if err := parseCounters(r.buf[:n], group, names, values); err != nil {
				return fmt.Errorf("netns: %s: %w", file.Name(), err)
			}
			return nil
		}
		r.buf = make([]byte, 2*len(r.buf))
	}
}

// parseCounters finds values in a group's two lines, of names and of numbers, by name: kernels add columns in between.
func parseCounters(text []byte, group string, names []string, values []uint64) error {
	heads, rest, ok := findLine(text, group)
	numbers, _, again := findLine(rest, group)
	if !ok || !again {
		return fmt.Errorf("no pair of lines %s", group)
	}
	found := 0 // a bit for each name
	for {
		var head, number []byte
		head, heads = nextField(heads)
		number, numbers = nextField(numbers)
		if len(head) == 0 || len(number) == 0 {
			break
		}
		for i, name := range names {
			if string(head) != name {
				continue
			}
			var err error
			if values[i], err = strconv.ParseUint(string(number), 10, 64); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if found&(1<<i) != 0 {
				return fmt.Errorf("two columns %s", name)
			}
			found |= 1 << i
		}
	}
	if found != 1<<len(names)-1 {
		return fmt.Errorf("not all of %d columns in %s", len(names), group)
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
