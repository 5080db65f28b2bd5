// Package world builds a small network of real Linux namespaces (a node, a client, Envoys, pods), sends load through
// a real Envoy, ends pods exactly as the kubelet ends them, and tells what the client saw.
//
// A Spec describes one run and Run carries it out. Everything lives inside one child process that is PID 1 of PID,
// mount and network namespaces of its own, so that its end, however it comes, is the end of every process,
// namespace, mount and file of the run.
package world

import (
	"slices"
	"time"
)

// Never, as a Lag, stands for an Envoy that never hears of the deletion.
const Never time.Duration = -1

// AppPort is where the pods' applications listen.
const AppPort = 8080

// Spec describes one run. The zero value of each field is a useful default.
type Spec struct {
	Name string
	// Pods is how many backends there are; 0 stands for 3.
	Pods    int
	App     App
	Sidecar Sidecar
	// Protocol is what Envoy and the applications speak, in TLS if TLS is set.
	Protocol Protocol
	TLS      bool
	// PreStopSleep is the usual cure: a preStop hook on the application that sleeps.
	PreStopSleep time.Duration
	// Grace is the pods' terminationGracePeriodSeconds; 0 stands for 30 s.
	Grace time.Duration
	// Probes lets the node's side ask the application's /healthz each second for readiness and liveness, a new
	// connection each. Liveness ends with the deletion, readiness with the container.
	Probes bool
	Gone   Gone
	// IPv6 makes endpoints, Envoys and load use IPv6 addresses.
	IPv6  bool
	Envoy Envoy
	// Load is what the client sends; empty stands for 200 requests a second with a timeout of 5 s.
	Load []Stream
	// Sessions are what the client keeps open beside its Load.
	Sessions []Session
	// Crowd are idle connections of the client to the first pod, past Envoy, opened From the start of the load and all
	// closed at once.
	Crowd Crowd
	// Foreign is how many established TCP sockets another namespace of the machine holds during the load.
	Foreign int
	// Duration is how long the load is sent; 0 stands for 18 s.
	Duration time.Duration
	// Events happen during the load.
	Events []Event
	// Seed makes the kubelet's delays repeatable.
	Seed uint64
}

// Protocol is what Envoy speaks with the applications.
type Protocol string

// The protocols that Envoy speaks with the applications.
const (
	HTTP1 Protocol = ""
	HTTP2 Protocol = "h2"   // with prior knowledge
	GRPC  Protocol = "grpc" // HTTP/2 with prior knowledge; the application is a gRPC server
	TCP   Protocol = "tcp"  // anything, through Envoy's tcp_proxy
)

// TermBehaviour is what an application does on SIGTERM.
type TermBehaviour string

// The four kinds of application.
const (
	Exit     TermBehaviour = "exit"     // exits at once
	Graceful TermBehaviour = "graceful" // closes its listener, finishes its requests, exits
	Serve    TermBehaviour = "serve"    // goes on for App.ServeFor, then exits at once
	Ignore   TermBehaviour = "ignore"   // goes on until it is killed
)

// App describes the backends' application.
type App struct {
	// OnTerm is Exit if empty.
	OnTerm TermBehaviour
	// ServeFor is for Serve; 0 stands for 5 s.
	ServeFor time.Duration
	// PerRequest makes it close each connection after one request.
	PerRequest bool
	// Listen is the address to listen on; empty stands for 0.0.0.0, or [::] in an IPv6 run.
	Listen string
	// Greets makes a TCP application speak first.
	Greets bool
	// LeaveChild makes it fork a child that inherits the listener and outlives it inside the container.
	LeaveChild bool
}

// SidecarKind is where lameduck runs in the pod.
type SidecarKind string

// The ways to run lameduck in a pod.
const (
	NoSidecar SidecarKind = ""
	Native    SidecarKind = "native" // an initContainer with restartPolicy Always and the preStop hook `lameduck drain`
	Plain     SidecarKind = "plain"  // one of the containers; its SIGTERM is the trigger
)

// Sidecar describes lameduck's part in the pod.
type Sidecar struct {
	Kind SidecarKind
	// Hold puts the hold hook on the application.
	Hold bool
	// Relay makes all pods of the run each other's static peers.
	Relay bool
	// RelayToService makes the peer a Service's address that leads to the first pod only, through NAT as kube-proxy's.
	RelayToService bool
	// Args are further flags of `lameduck run`.
	Args []string
	// HookDelay is how late the exec hook starts; 0 stands for a random delay of 40–400 ms.
	HookDelay time.Duration
	// Files is the limit of open files; the zero value is the world's own.
	Files FileLimit
	// NoSockDiag lets seccomp refuse sock_diag, as some nodes' policies do.
	NoSockDiag bool
}

// FileLimit is a soft and a hard RLIMIT_NOFILE.
type FileLimit struct{ Soft, Hard uint64 }

// Gone is what becomes of a dead pod's address.
type Gone string

// What a dead pod's address does.
const (
	Dropped     Gone = ""            // packets vanish, as on a routed network
	Unreachable Gone = "unreachable" // ARP finds nobody: EHOSTUNREACH after about 3 s, as on a shared link
	Reused      Gone = "reused"      // another pod, of another service, has it at once
)

// Envoy describes the proxies and how they learn of endpoints.
type Envoy struct {
	// Count is how many there are, each in a namespace of its own; 0 stands for 1.
	Count int
	// Lag is the time from a pod's deletion to Envoy's hearing of it, or Never.
	Lag time.Duration
	// Draining is Envoy Gateway ≥ 1.3's way: the endpoint is DRAINING Lag after the deletion, and leaves the list
	// Lag after the pod's end. Without it, it leaves the list Lag after the deletion.
	Draining bool
	// Fresh is how many of the last pods are new: Envoy hears of them together with the first deletion, as in a rolling
	// update, where one late list brings both.
	Fresh int
	// NAT gives Envoys the node's address where pods see them.
	NAT    bool
	Policy Policy
	// Rules are further route rules, each with a cluster of its own for the same pods, as Envoy Gateway makes them.
	Rules []Rule
	// Watch keeps how Envoy's view of each host changed (Result.Views).
	Watch bool
}

// Rule is a route rule: requests whose path begins with Prefix, and the policy that is theirs alone.
type Rule struct {
	Prefix string
	Policy Policy
}

// Stream is one kind of request, sent open-loop: each at its time, whatever became of those before.
type Stream struct {
	Name string
	Call Call
	// Rate is in requests a second; 0 stands for 200.
	Rate float64
	// Timeout is the client's; 0 stands for 5 s.
	Timeout time.Duration
	// Delay is how long the application takes to answer.
	Delay time.Duration
	// Path is the request's path; empty stands for /.
	Path string
	// Direct sends it straight to the first pod, from the client's address: a scraper, or a check that nobody announced.
	// Each request has a connection of its own, unless Keep lets them share.
	Direct, Keep bool
	// Connect lets a Direct stream open and close connections, and send nothing.
	Connect bool
	// From and Until bound it within the run; Until 0 stands for the run's Duration.
	From, Until time.Duration
}

// Crowd is a number of idle connections.
type Crowd struct {
	Count       int
	From, Until time.Duration
}

// withDefaults returns the Spec with its zero values filled in.
func (s Spec) withDefaults() Spec {
	set(&s.Pods, 3)
	set(&s.Grace, 30*time.Second)
	set(&s.Duration, 18*time.Second)
	set(&s.Seed, 1)
	set(&s.App.OnTerm, Exit)
	set(&s.App.ServeFor, 5*time.Second)
	if s.IPv6 {
		set(&s.App.Listen, "[::]")
	}
	set(&s.App.Listen, "0.0.0.0")
	set(&s.Envoy.Count, 1)
	s.Envoy.Policy = s.Envoy.Policy.withDefaults()
	s.Envoy.Rules = slices.Clone(s.Envoy.Rules)
	for i := range s.Envoy.Rules {
		s.Envoy.Rules[i].Policy = s.Envoy.Rules[i].Policy.withDefaults()
	}
	if len(s.Load) == 0 {
		s.Load = []Stream{{}}
	}
	streams := make([]Stream, len(s.Load))
	for i, l := range s.Load {
		set(&l.Rate, 200)
		set(&l.Timeout, 5*time.Second)
		set(&l.Path, "/")
		if s.Protocol == TCP && l.Call == CallGet {
			l.Call = CallTCP
		}
		if s.Protocol == GRPC && l.Call == CallGet {
			l.Call = CallGRPC
		}
		set(&l.Until, s.Duration)
		streams[i] = l
	}
	s.Load = streams
	s.Sessions = slices.Clone(s.Sessions)
	for i, session := range s.Sessions {
		s.Sessions[i] = session.withDefaults(s.Duration)
	}
	return s
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
