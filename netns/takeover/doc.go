// Package takeover listens on the application's ports after the application has left them, and passes each connection on
// to another endpoint of the same Service.
//
//	Arm ──▶ armed: bind+listen is tried every 5 ms and at each Kick, while a peer answers
//	          │  ▲
//	   Taken  ▼  │  Released: no peer answers; the kernel refuses (a RST at the SYN, which clients retry safely)
//	        taken: each connection is looked at, then relayed, or answered if it is a health check
//
// Nothing happens before the first Arm: no dial, no timer, no socket; a few descriptors are held, though, and from Arm on
// a socket for each port, so that their want keeps no port from being taken. Nothing here needs a privilege.
//
// # Health checks
//
// A check that is relayed says that a dead host is well. So a connection is judged by its first request, which is looked
// at and left unread. It is a check if it bears no x-request-id, which Envoy gives to all that it forwards, and
//   - says "user-agent: Envoy/HC", by a method that Envoy's checker can be told to use: any but CONNECT; or
//   - asks for one of Options.HealthPaths, by GET, HEAD or OPTIONS, or in gRPC, which is POST always. Another method may be
//     a client's that has not come through Envoy, and changes something.
//
// So a user that says it is Envoy's checker is relayed, and a gRPC check is a request as any other: one that a client sends
// itself is relayed, unless /grpc.health.v1.Health/Check is among the HealthPaths. (Where Envoy has generate_request_id
// off, whoever says Envoy/HC is taken for the checker.) A check is answered by what fails the host at once, and its
// connection is closed, so the next check comes on a new one. All else is relayed byte for byte: what is malformed, longer
// than 8 KiB, or no HTTP.
//
//	framing                                                treatment
//	HTTP/1.1, HTTP/1.0, absolute-form target                failed
//	an offer of h2c (upgrade)                               failed: answered in HTTP/1.1, which declines the offer
//	HTTP/2 with prior knowledge, gRPC                       failed
//	  other frames first, padding, priority, CONTINUATION,
//	  any stream as the first                               failed
//	a header of the PROXY protocol first, v1 or v2          failed
//	in pieces                                               failed; if the first byte comes after 50 ms, or the rest not
//	                                                        within 50 ms of each other and 200 ms: cut (see below)
//	a request behind a check                                neither relayed nor answered: the answer says close, or GOAWAY
//	a check behind a request, on one connection             relayed
//	an obsolete line folding, LF alone, an empty line first relayed: Envoy sends none of these
//	TLS; TCP checks                                         relayed, or accepted: nothing can be told from their bytes
//
// After 50 ms without a byte the relay begins, since the server may be the one that speaks first. What the client sends
// is still judged as it passes, and where it turns out to be a check the connection is cut: for Envoy that is a network
// failure, which counts towards the check's threshold, and the next check comes on a new connection. (Envoy checks from
// its main thread, which can be busy for longer than 50 ms.)
//
// What is relayed in spite of all this keeps the host healthy in the eyes of that checker until the drain ends: then the
// relay ends, and the address with the pod. It never lasts longer than the grace period. Envoy's own checkers use
// connections of their own, so only a second proxy between Envoy and the pod makes a check follow a request.
package takeover
