package world

import "time"

// CheckKind is what a health check asks.
type CheckKind string

// Envoy's active health checkers.
const (
	CheckHTTP1 CheckKind = ""     // a GET over HTTP/1.1
	CheckHTTP2 CheckKind = "h2"   // a GET over HTTP/2 with prior knowledge
	CheckGRPC  CheckKind = "grpc" // grpc.health.v1.Health/Check; for Specs of GRPC
	CheckTCP   CheckKind = "tcp"  // a connection that sends nothing
)

// Active is a health check that Envoy makes of its own accord, with a threshold of three failures. It is made in TLS where
// the Spec's TLS is set, whatever its port: Envoy uses the cluster's transport socket.
type Active struct {
	Kind CheckKind
	Port uint16 // 0: the application's
	// Path is the GET's; empty stands for /healthz.
	Path     string
	Interval time.Duration // 0 stands for 1 s
	// Jitter is the most that Envoy adds to an interval.
	Jitter  time.Duration
	Timeout time.Duration // 0 stands for 1 s
	// Fresh gives each check a connection of its own (reuse_connection: false).
	Fresh bool
}

func (a Active) withDefaults() Active {
	set(&a.Path, "/healthz")
	set(&a.Interval, time.Second)
	set(&a.Timeout, time.Second)
	return a
}
