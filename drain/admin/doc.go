// Package admin is what a sidecar shows to the world: the admin paths over HTTP, and the control socket.
//
// Over HTTP one can only read and wait. Anybody who reaches the pod can send a request, so no request starts, stops or
// steers a drain: the paths answer GET alone, and they read nothing of a request but its path.
//
//	/healthz  200, or 503 with the reason; from the trigger on 503 with x-envoy-immediate-health-check-fail
//	/livez    200, for the whole drain
//	/hold     waits until the hold is released, then 200, whatever happened meanwhile
//	/status   the state of the drain, as JSON
//	/metrics  the same for Prometheus
//
// HEAD is refused like every other method: no caller of these paths needs it, and one rule is easier to trust than two.
// The one exception is grpc.health.v1.Health over HTTP/2, since gRPC is POST: its Check, Watch and List read nothing at all.
//
//	Check  SERVING where /healthz answers 200, else NOT_SERVING, with the header from the trigger on; for every name
//	Watch  the same at once, at the trigger, and where another check finds the application well or unwell
//	List   the same, for the empty name
//
// The port takes TLS beside cleartext where there is a certificate: Envoy checks over its cluster's transport socket.
//
// A check's connection is known to the drain by its port until it closes. So it knows when every checker of a source has
// been told, as far as they have checked before.
//
// The control socket @lameduck is an abstract unix socket. Such a name belongs to a network namespace, so the containers
// of the pod reach it, while other pods and HTTP requests cannot. Pods in the node's network (hostNetwork) share the name,
// so a sidecar also serves one that only its own container knows (OwnName), and in such a pod that one alone. Both take one
// line, "drain", "hold" or "status", and answer with one: "ok", "ok " and JSON, or "error " and the reason. A client keeps
// its writing side open while it waits. Who sends no line goes when others come, so a drain always gets through; a hold or a
// status beyond the bounds is told so.
//
// What others may send is bounded in connections (Places, a share of the open files), requests on each, and bytes: together it
// fits into a sidecar's memory.
package admin
