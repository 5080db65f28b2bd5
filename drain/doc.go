// Package drain decides when a pod may end.
//
//	serving ──trigger──▶ draining ──the last listener is gone──▶ covering
//	                        │                                       │
//	                        └──────────▶ done ◀─────────────────────┘
//
// serving: nothing is asked and nothing ticks; the death of a listener is heard, since it may be the first sign of the end.
// draining: health checks fail, the application serves. covering: the application's listener is gone; the kernel refuses,
// or the takeover relays. done: the last words are written.
//
// Two decisions are taken, and both only ever once:
//
//	the hold is released   when it is quiet, or at grace period − reserve
//	lameduck exits         after SIGTERM, when it is quiet and neither a listener nor a connection of the application is
//	                       left; or a second before the grace period ends
//
// Quiet is: no activity for the quiet window, no answer owed, and the least time since the trigger has passed.
// Activity is a new connection, a data segment on an open one, or a refused SYN, from an address that counts as Envoy.
// What is left out, and why, is told where it is left out: trains of health checks in train.go and ledger.go, the kubelet's
// probes and answers owed in connection.go.
//
// Whatever cannot be seen makes the drain longer, never shorter: lost events are activity, a refused sock_diag is a sleep of
// 25 s, an internal error is the whole grace period.
//
// Machine (machine.go, with quiet.go for the decisions) is pure: events in, effects out, the clock passed in. Drain (drain.go)
// is the one goroutine that owns it, reads the kernel and does what the effects say.
package drain
