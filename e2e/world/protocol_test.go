package world_test

import (
	"time"

	"lameduck/e2e/world"
)

// protocol is one that Envoy carries, and a call in it.
type protocol struct {
	name string
	spec world.Spec // Protocol, TLS, App.Greets
	call world.Call
}

// with returns a spec in the protocol.
func (p protocol) with(spec world.Spec) world.Spec {
	spec.Protocol, spec.TLS, spec.App.Greets = p.spec.Protocol, p.spec.TLS, p.spec.App.Greets
	if spec.Load == nil {
		spec.Load = []world.Stream{{Rate: rate}}
	}
	for i := range spec.Load {
		spec.Load[i].Call = p.call
	}
	return spec
}

var protocols = []protocol{
	{"HTTP POST", world.Spec{}, world.CallPost},
	{"HTTPS POST", world.Spec{TLS: true}, world.CallPost},
	{"h2c POST", world.Spec{Protocol: world.HTTP2}, world.CallPost},
	{"HTTP2 in TLS POST", world.Spec{Protocol: world.HTTP2, TLS: true}, world.CallPost},
	{"gRPC unary", world.Spec{Protocol: world.GRPC}, world.CallGRPC},
	{"gRPC server stream", world.Spec{Protocol: world.GRPC}, world.CallGRPCStream},
	{"WebSocket", world.Spec{}, world.CallWebSocket},
	{"TCP", world.Spec{Protocol: world.TCP}, world.CallTCP},
	{"TCP in TLS", world.Spec{Protocol: world.TCP, TLS: true}, world.CallTCP},
	{"TCP, the server speaks first", world.Spec{Protocol: world.TCP, App: world.App{Greets: true}}, world.CallTCP},
}

// kept is the kind of session that the protocol has, if any.
func (p protocol) kept() []world.Session {
	switch p.call {
	case world.CallGRPC, world.CallGRPCStream:
		return sessions(world.CallGRPCStream)
	case world.CallWebSocket, world.CallTCP:
		return sessions(p.call)
	}
	return nil
}

// sessions are three: the client asks each second, the application sends each second, and nobody says anything.
func sessions(call world.Call) []world.Session {
	return []world.Session{
		{Name: "asks", Call: call, Every: time.Second, Asks: true},
		{Name: "sends", Call: call, Every: time.Second},
		{Name: "silent", Call: call},
	}
}
