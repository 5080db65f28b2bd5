package node

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"lameduck/e2e/world/box"
)

// checkWalls fails if a boxed process has more than lameduck may have: then the world would prove nothing.
func checkWalls(p *process) error {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return err
	}
	alone, err := aloneInUserNamespace()
	if err != nil {
		return err
	}
	want := map[string]string{
		"NoNewPrivs": "1", "CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
	}
	if !alone { // else the box's user is this process's, seen from here
		want["Uid"] = strings.Repeat(strconv.Itoa(box.UID)+" ", 4)
		want["Gid"] = want["Uid"]
	}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(line, ":")
		wanted, checked := want[name]
		if !checked {
			continue
		}
		if value = strings.Join(strings.Fields(value), " "); value != strings.TrimSpace(wanted) {
			return fmt.Errorf("the sidecar has %s %s, not %s", name, value, wanted)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		return fmt.Errorf("/proc/PID/status does not tell %v", want)
	}
	return nil
}

// none is an empty set of capabilities.
const none = "0000000000000000"
