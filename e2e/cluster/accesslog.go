package cluster

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Request is a line of Envoy's access log.
type Request struct {
	Start                              time.Time
	Path, ID, Flags, Details, Upstream string
}

// accessLog returns what Envoy has logged since a time.
func (c *Cluster) accessLog(ctx context.Context, since time.Time) ([]Request, error) {
	out, err := c.Kubectl(ctx, "logs", "-n", GatewayNamespace, "-c", "envoy", "--tail=-1",
		"-l", "gateway.envoyproxy.io/owning-gateway-name=gateway", "--since-time="+since.UTC().Format(time.RFC3339))
	if err != nil {
		return nil, err
	}
	var requests []Request
	for line := range strings.Lines(out) {
		var r Request
		if json.Unmarshal([]byte(line), &r) == nil && r.Path != "" {
			requests = append(requests, r)
		}
	}
	return requests, nil
}

// of returns the requests to a backend.
func of(requests []Request, backend string) []Request {
	var own []Request
	for _, r := range requests {
		if path, ok := strings.CutPrefix(r.Path, "/"+backend); ok && (path == "" || strings.ContainsAny(path[:1], "/?")) {
			own = append(own, r)
		}
	}
	return own
}

// lastTo is when the last request was sent to a pod; the zero time if none was.
func lastTo(requests []Request, ip string) time.Time {
	var last time.Time
	for _, r := range requests {
		if strings.HasPrefix(r.Upstream, ip+":") && r.Start.After(last) {
			last = r.Start
		}
	}
	return last
}
