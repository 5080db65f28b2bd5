package world

import (
	"encoding/json"
	"net/netip"
	"time"
)

// Result is what a run showed. All times are offsets from the load's start.
type Result struct {
	Spec Spec
	Load Outcome
	Pods []Pod
	// Replayed counts requests that reached applications more than once.
	Replayed int
	// Views are the changes of what Envoys thought of hosts, where Envoy.Watch asks for them.
	Views   []View
	Answers []Answer
	Usages  []Usage
	// Calls is what a Trace counted: system calls by name.
	Calls map[string]int
}

// Outcome is the client's side.
type Outcome struct {
	Start    time.Time
	Sent     int
	Failures []Failure
	Sessions []SessionEnd
	// P50, P99 and Slowest are over all requests, failed ones too.
	P50, P99, Slowest time.Duration
}

// Failure is one request that the client lost.
type Failure struct {
	ID     int
	Stream string
	At     time.Duration // when it was sent
	Took   time.Duration
	// Kind is "timeout", "reset", "stranger" (another service answered), "mixed up" (another request's answer came), the
	// HTTP status, or "status 14" with gRPC's code.
	Kind string
	// Detail is what a client of CallGRPC was told beside the code.
	Detail string
	// Port is the client's of a CallTCP, which has no other name in Envoy's log.
	Port uint16
	// Flags are Envoy's response flags of the request (UF, UC, DC ...), Details its response code details, and
	// Upstream the host it chose; empty where Envoy logged nothing.
	Flags, Details, Upstream string
}

// Pod is one pod's story.
type Pod struct {
	Name    string
	Address netip.Addr
	// Marks are what the kubelet did and saw, in order.
	Marks []Mark
	// Refused is how many RSTs the pod's kernel sent between the deletion and the end of its namespace.
	Refused uint64
	// Served counts requests that reached its application.
	Served int
	// Checks counts the health checks of Envoy that its application answered: HTTP and gRPC ones.
	Checks int
	// LastWords is the JSON line that lameduck left in its termination log.
	LastWords json.RawMessage
	// Log is lameduck's log.
	Log string
}

// The marks that the kubelet makes.
const (
	MarkDeleted    = "deleted"
	MarkHookStart  = "hook start"
	MarkHookEnd    = "hook end"
	MarkHookFailed = "hook failed"
	MarkTerm       = "SIGTERM"
	MarkKill       = "SIGKILL"
	MarkExit       = "exit"
	MarkGone       = "address gone"
	MarkStarted    = "started"
	MarkUnready    = "unready"
)

// Mark is one entry of a pod's timeline.
type Mark struct {
	At        time.Duration
	Container string
	What      string
	Detail    string
}

// Answer is what a Get brought.
type Answer struct {
	Get
	At     time.Duration // when it was asked
	Took   time.Duration
	Status int // 0: no answer
	Body   string
}

// Usage is what a sidecar has used of the machine since its start.
type Usage struct {
	At  time.Duration
	Pod int
	// CPU is the time of all its threads on a processor, in the kernel too.
	CPU time.Duration
	// Switches is how often its threads went to sleep of their own accord.
	Switches int
	// Anonymous and File are the parts of its resident memory, in bytes.
	Anonymous, File int64
}

// View is what an Envoy thinks of a host from a moment on.
type View struct {
	At    time.Duration
	Envoy int
	// Cluster is "backends", or "rule-0" and so on for Envoy.Rules.
	Cluster string
	Pod     int
	// State is "healthy" or "removed", or what speaks against the host, in Envoy's words and joined by commas:
	// "eds_health_status=DRAINING", "failed_active_health_check", "failed_outlier_check",
	// "excluded_via_immediate_hc_fail", "pending_dynamic_removal" (removed, and kept for passing its checks) ...
	State string
}

// Find returns the first mark of a container ("" for the pod) of a kind.
func (p Pod) Find(container, what string) (Mark, bool) {
	for _, m := range p.Marks {
		if m.Container == container && m.What == what {
			return m, true
		}
	}
	return Mark{}, false
}

// EndedAfter is the time from the pod's deletion to its address's end; false if either did not come.
func (p Pod) EndedAfter() (time.Duration, bool) {
	deleted, ok := p.Find("", MarkDeleted)
	gone, gok := p.Find("", MarkGone)
	return gone.At - deleted.At, ok && gok
}

// Killed tells whether a container had to be killed.
func (p Pod) Killed(container string) bool {
	_, killed := p.Find(container, MarkKill)
	return killed
}

// Kinds counts the failures by kind.
func (o Outcome) Kinds() map[string]int {
	kinds := make(map[string]int)
	for _, f := range o.Failures {
		kinds[f.Kind]++
	}
	return kinds
}
