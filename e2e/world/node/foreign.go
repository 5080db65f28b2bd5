package node

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// perProcess is how many connections a foreign process holds, within the usual limits of open files and ports.
const perProcess = 15_000

// startForeign fills a namespace that has nothing to do with the run with idle TCP sockets, two a connection. They end
// with this process, as all does.
func (n *node) startForeign() error {
	if n.spec.Foreign == 0 {
		return nil
	}
	ns, err := newNamespace()
	if err != nil {
		return err
	}
	there, err := netlink.NewHandleAt(netns.NsHandle(int(ns.file.Fd())))
	if err != nil {
		return err
	}
	defer there.Close()
	if err := linkUp(there, "lo"); err != nil {
		return err
	}
	// Of the namespace: how many connections may wait to be accepted.
	if err := ns.do(func() error {
		return os.WriteFile("/proc/sys/net/core/somaxconn", []byte(strconv.Itoa(perProcess)), 0)
	}); err != nil {
		return err
	}
	var counts []int
	for left := (n.spec.Foreign + 1) / 2; left > 0; left -= perProcess {
		counts = append(counts, min(left, perProcess))
	}
	return forEach(counts, func(count int) error { return n.startCrowd(ns, count) })
}

// startCrowd starts one process and waits until its sockets are there.
func (n *node) startCrowd(ns *namespace, count int) error {
	cmd := exec.Command(self, "foreign", strconv.Itoa(count))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.held = append(n.held, in)
	n.mu.Unlock()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := ns.do(cmd.Start); err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(out).ReadString('\n')
		ready <- err
	}()
	select {
	case err := <-ready:
		if err != nil {
			return fmt.Errorf("foreign sockets: %w", err)
		}
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("foreign sockets: %d connections take too long", count)
	}
}
