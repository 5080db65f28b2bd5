package drain

import (
	"net/netip"
	"time"
)

// Phase is where in the pod's end lameduck stands.
type Phase string

// The phases, in their order.
const (
	Serving  Phase = "serving"
	Draining Phase = "draining"
	Covering Phase = "covering"
	Done     Phase = "done"
)

// Status is what a person, or a metric, wants to know of the drain. It is a copy: nothing in it changes later.
type Status struct {
	Phase Phase `json:"phase"`
	// WaitsFor says in words what the drain waits for.
	WaitsFor string `json:"waits_for"`
	// Trigger is what started the drain: "drain", "SIGTERM" or a host signal; empty while serving.
	Trigger   string     `json:"trigger,omitempty"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	// ElapsedSeconds is the time since the trigger.
	ElapsedSeconds float64 `json:"elapsed_seconds"`
	Terminated     bool    `json:"terminated"` // SIGTERM has come
	Holds          int     `json:"holds"`      // holds that wait now
	Released       string  `json:"released,omitempty"`
	// LagSeconds is trigger → last activity: the propagation lag as far as the traffic showed it.
	LagSeconds  float64  `json:"lag_seconds"`
	Owed        int      `json:"owed"`
	Connections int      `json:"connections"` // application connections open now
	Refused     uint64   `json:"refused"`     // connections that the kernel refused since a listener of the application died
	Ports       []Port   `json:"ports"`
	Sources     []Source `json:"sources"`
	Relay       Relay    `json:"relay"`
	// Degraded lists, in words, what lameduck has to do without, and what follows.
	Degraded []string `json:"degraded"`
}

// Port is one application port.
type Port struct {
	Address string `json:"address"` // as the application listened: 0.0.0.0:8080
	State   string `json:"state"`   // "listening", "stuck", "gone", "taken"
}

// Source is a line of the ledger.
type Source struct {
	Address netip.Addr `json:"address"`
	// LastActivitySeconds is how long ago its last activity was; 0 if there was none that counts.
	LastActivitySeconds float64 `json:"last_activity_seconds"`
	Connections         uint64  `json:"connections"` // new ones since the trigger
	Messages            uint64  `json:"messages"`    // rows of data seen since the trigger
	Owed                int     `json:"owed"`
	// Ignored says why its traffic does not hold the drain; empty where it does.
	Ignored string `json:"ignored,omitempty"`
	// Remark says why its traffic counts, where that is not plain.
	Remark string `json:"remark,omitempty"`
	// LastCheckSeconds is how long ago its last health check was answered, LastAnswer how; empty where there was none.
	LastCheckSeconds float64 `json:"last_check_seconds,omitempty"`
	LastAnswer       string  `json:"last_answer,omitempty"`
	// Told is true once every checker of it that is known has been failed since the trigger; ToldSeconds is how long ago.
	Told        bool    `json:"told"`
	ToldSeconds float64 `json:"told_seconds,omitempty"`
	// Untold counts the checkers of it that have not been failed yet: connections on which it asked the health port.
	Untold int `json:"untold_checkers,omitempty"`
}

// What a health check was answered.
const (
	AnswerWell   = "well"
	AnswerFailed = "failed"
)

// Relay counts what the takeover did.
type Relay struct {
	Relayed     uint64 `json:"relayed"`
	Open        int    `json:"open"`
	Failed      uint64 `json:"failed"`
	Looped      uint64 `json:"looped"`
	Checks      uint64 `json:"checks"`
	PeersKnown  int    `json:"peers_known"`
	PeersAnswer int    `json:"peers_answer"`
}
