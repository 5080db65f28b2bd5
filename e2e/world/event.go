package world

import "time"

// Event is something that happens At a time after the load's start.
type Event struct {
	At time.Duration
	// Delete lists pods to delete together.
	Delete []int
	// Restart lists pods whose application container the kubelet restarts, as after a failed liveness probe.
	Restart []int
	// Drain lists pods in whose sidecar `lameduck drain` is run, as the hook runs it.
	Drain []int
	// Terminate lists pods whose sidecar gets a SIGTERM beside the kubelet's.
	Terminate []int
	// Freeze stops a pod's sidecar for a time, as a node without a free processor does.
	Freeze *Freeze
	// Get asks a pod over HTTP.
	Get *Get
	// Unplug lists pods whose address ends as a lost node's does: nothing gets in or out any more, and nobody is told.
	Unplug []int
	// Measure lists pods whose sidecar's Usage is read.
	Measure []int
	// Trace counts the system calls of a pod's sidecar.
	Trace *Trace
}

// Freeze stops the sidecar of a pod.
type Freeze struct {
	Pod int
	For time.Duration
}

// From is who sends a Get.
type From string

// Who sends a Get.
const (
	FromNode   From = ""       // the kubelet, or whoever has the node's address
	FromClient From = "client" // another pod
	FromApp    From = "app"    // the application, from within its pod
)

// Get is one HTTP request to a pod, on a connection of its own.
type Get struct {
	Pod    int
	Port   uint16
	Path   string
	Method string // empty stands for GET
	From   From
	// Host is where a request of FromApp goes; empty stands for the pod's address.
	Host string
	// Timeout 0 stands for 5 s.
	Timeout time.Duration
}

// Trace runs strace on a pod's sidecar.
type Trace struct {
	Pod int
	For time.Duration
}
