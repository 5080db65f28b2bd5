package admin

import (
	"context"
	"net/netip"

	"lameduck/drain"
)

// Backend is the drain that the surface shows. *drain.Drain is one.
type Backend interface {
	// Trigger starts the drain, once; later calls change nothing. by is "drain", for the control socket.
	Trigger(by string)
	// Hold returns when the hold is released: at quiet, at grace period − reserve, at once in observe-only,
	// or after 5 s in which no drain has begun; or when ctx ends.
	Hold(ctx context.Context)
	// Status is a copy of the present state.
	Status() drain.Status
	// Draining tells whether health checks have to fail.
	Draining() bool
	// AppHealth tells, while serving, whether the application is well: nil, or why not.
	AppHealth(ctx context.Context) error
	// Begun is closed at the trigger.
	Begun() <-chan struct{}
	// Checked hears of each health check that was answered on the admin address.
	Checked(source netip.AddrPort, failed bool)
	// CheckerLeft hears that a connection which Checked has named is about to close.
	CheckerLeft(source netip.AddrPort)
}
