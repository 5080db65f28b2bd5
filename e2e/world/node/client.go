package node

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lameduck/e2e/world"
	"lameduck/e2e/world/load"
	"lameduck/e2e/world/proxy"
)

// client is the load's process, in a namespace of its own.
type client struct {
	cmd *exec.Cmd
	out *bufio.Reader
	log string
}

func (n *node) startLoad() (*client, error) {
	ns, err := n.net.attach("client", clientAddress())
	if err != nil {
		return nil, err
	}
	n.clientPlace = ns
	config := load.Config{
		Streams: n.spec.Load, Sessions: n.spec.Sessions, Crowd: n.spec.Crowd,
		WarmUp: n.warmUpCall(), Greets: n.spec.App.Greets,
		Pod: net.JoinHostPort(n.podIP(n.pods[0]).String(), strconv.Itoa(world.AppPort)),
	}
	for _, p := range n.proxies {
		config.Envoys = append(config.Envoys, net.JoinHostPort(p.Address.String(), strconv.Itoa(proxy.Port)))
	}
	c := &client{cmd: exec.Command(self, "load"), log: filepath.Join(n.dir, "load.log")}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	c.cmd.Stderr = log
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	if err := ns.do(c.cmd.Start); err != nil {
		return nil, fmt.Errorf("start load: %w", err)
	}
	if err := json.NewEncoder(in).Encode(config); err != nil {
		return nil, err
	}
	return c, in.Close()
}

// warmUpCall is what any application of the run answers.
func (n *node) warmUpCall() world.Call {
	switch n.spec.Protocol {
	case world.TCP:
		return world.CallTCP
	case world.GRPC:
		return world.CallGRPC
	}
	return world.CallGet
}

// started waits for the load's start.
func (c *client) started() (time.Time, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return time.Time{}, fmt.Errorf("load: %w; its log:\n%s", err, tail(c.log))
	}
	nanos, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return time.Unix(0, nanos), err
}

// outcome waits for the load's end.
func (c *client) outcome() (world.Outcome, error) {
	var o world.Outcome
	if err := json.NewDecoder(c.out).Decode(&o); err != nil {
		return o, fmt.Errorf("load: %w; its log:\n%s", err, tail(c.log))
	}
	return o, c.cmd.Wait()
}
