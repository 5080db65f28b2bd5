package world

import "time"

// Policy is what a BackendTrafficPolicy makes of Envoy's cluster and route. The zero value is Envoy Gateway's default:
// connect timeout 10 s, no retry, no health checks.
type Policy struct {
	ConnectTimeout time.Duration // 0 stands for 10 s
	// RouteTimeout is the whole request's; 0 stands for Envoy's 15 s, Never for none.
	RouteTimeout time.Duration
	Retry        *Retry
	Passive      *Passive
	Active       *Active
	// KeepRemoved turns ignore_health_on_host_removal off, as in plain Envoy and Envoy Gateway < 1.5.
	KeepRemoved bool
	// PanicBelow is the percentage of healthy hosts below which Envoy sends to all hosts, healthy or not
	// (healthy_panic_threshold); 0 stands for Envoy's 50, NoPanic for never.
	PanicBelow float64
}

// NoPanic, as a PanicBelow, keeps Envoy from sending to unhealthy hosts, however few healthy ones there are.
const NoPanic float64 = -1

// Retry is the route's retry policy; Envoy Gateway adds the previous-hosts predicate to each.
type Retry struct {
	On          string
	StatusCodes []uint32
	Count       uint32
	PerTry      time.Duration // 0: none
	BaseBackOff time.Duration // 0: Envoy's
	MaxBackOff  time.Duration
}

// Passive is outlier detection, where Envoy Gateway's names differ from Envoy's in what follows its field.
type Passive struct {
	Consecutive5xx uint32 // 0: Envoy's 5
	// ConsecutiveGateway counts 502, 503 and 504 alone (consecutiveGatewayErrors); 0: not looked at.
	ConsecutiveGateway uint32
	// ConsecutiveLocal counts what Envoy itself saw fail: refused, reset, timed out. It splits them from the statuses
	// (splitExternalLocalOriginErrors); 0: not split.
	ConsecutiveLocal   uint32
	Interval           time.Duration
	BaseEjectionTime   time.Duration
	MaxEjectionPercent uint32
	// AlwaysOne lets one host be ejected whatever MaxEjectionPercent allows (alwaysEjectOneEndpoint).
	AlwaysOne bool
}

func (p Policy) withDefaults() Policy {
	set(&p.ConnectTimeout, 10*time.Second)
	set(&p.RouteTimeout, 15*time.Second)
	if p.Active != nil {
		a := p.Active.withDefaults()
		p.Active = &a
	}
	return p
}

// ReportPolicy is the BackendTrafficPolicy of the report that lameduck answers (envoyproxy/gateway issue 4997:
// passive health checking and retries do not alleviate the race on a pod's deletion), with an active check beside it.
func ReportPolicy() Policy {
	return Policy{
		Passive: &Passive{Consecutive5xx: 1, Interval: 2 * time.Second, BaseEjectionTime: 10 * time.Second, MaxEjectionPercent: 40},
		Retry: &Retry{
			On: "connect-failure,retriable-status-codes", StatusCodes: []uint32{500}, Count: 2,
			PerTry: time.Second, BaseBackOff: 500 * time.Millisecond, MaxBackOff: 2 * time.Second,
		},
		Active: &Active{Path: "/healthz", Interval: 3 * time.Second, Timeout: time.Second},
	}
}

// ConnectTimeoutPolicy is the report's work-around: a connect timeout shorter than the client's patience, alone.
func ConnectTimeoutPolicy() Policy {
	return Policy{ConnectTimeout: 4 * time.Second}
}

// DefaultRetryPolicy is what Envoy Gateway sets where a policy asks for retries and says no more.
func DefaultRetryPolicy() Policy {
	return Policy{Retry: &Retry{
		On:    "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes",
		Count: 2, StatusCodes: []uint32{503},
	}}
}
