package cluster

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"lameduck/e2e/cluster/node"
)

// Call is what a pod asked of the API server.
type Call struct {
	At                             time.Time
	Pod, Verb, Resource, Namespace string
	Status                         int
	// URI has the query.
	URI string
}

// Calls are those that pods of a namespace made with lameduck's own token or their account's, by the API server's audit
// log. A watch is in it from its start.
func (c *Cluster) Calls(ctx context.Context) ([]Call, error) {
	out, err := c.Run(ctx, "", "cat", node.AuditLog)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	var calls []Call
	for line := range strings.Lines(out) {
		var e struct {
			AuditID, Verb, RequestURI string
			RequestReceivedTimestamp  time.Time
			User                      struct {
				Username string
				Extra    map[string][]string
			}
			ObjectRef      struct{ Resource, Namespace string }
			ResponseStatus struct{ Code int }
		}
		if json.Unmarshal([]byte(line), &e) != nil || !strings.HasPrefix(e.User.Username, "system:serviceaccount:"+Namespace+":") {
			continue
		}
		// A watch has a line for its start and one for its end.
		if seen[e.AuditID] {
			continue
		}
		seen[e.AuditID] = true
		call := Call{e.RequestReceivedTimestamp, "", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ResponseStatus.Code, e.RequestURI}
		if names := e.User.Extra["authentication.kubernetes.io/pod-name"]; len(names) == 1 {
			call.Pod = names[0]
		}
		calls = append(calls, call)
	}
	return calls, nil
}
