package node

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// sentResets is how many RSTs the kernel has sent in a namespace: Tcp OutRsts, which counts IPv6 too.
func sentResets(ns *namespace) (uint64, error) {
	var content []byte
	err := ns.do(func() (err error) {
		content, err = os.ReadFile("/proc/thread-self/net/snmp")
		return err
	})
	if err != nil {
		return 0, err
	}
	var names []string
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Tcp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		if i := slices.Index(names, "OutRsts"); i > 0 && i < len(fields) {
			return strconv.ParseUint(fields[i], 10, 64)
		}
	}
	return 0, errors.New("no Tcp OutRsts in /proc/net/snmp")
}
