// Package host is lameduck as a service of a host: systemd is told what it does.
package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"lameduck/drain"
)

const (
	// spoken is how often systemd is told of a drain.
	spoken = time.Second
	// extension is the time that a drain asks for with each word of it, beside what the unit gives a stop (TimeoutStopSec).
	// It is longer than a busy host may keep us from the next word.
	extension = 15 * time.Second
)

// Drain is what is told of. A *drain.Drain is one.
type Drain interface {
	// Begun is closed at the trigger.
	Begun() <-chan struct{}
	// Status is answered by the goroutine that owns the drain: an answer shows that it is alive.
	Status() drain.Status
}

// Service is a systemd service that this process is the main process of, with Type=notify.
type Service struct {
	// watchdog is how often systemd wants to hear that we live; zero if it does not.
	watchdog time.Duration
	logger   *slog.Logger
	failed   sync.Once // the first failure is said
}

// Find returns the service that this process is, nil where systemd has not asked to be told (NOTIFY_SOCKET).
func Find(logger *slog.Logger) (*Service, error) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil, nil
	}
	// systemd ends a service that is silent for WatchdogSec: half of it is what its manual advises.
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("host: WATCHDOG_USEC and WATCHDOG_PID: %w", err)
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Service{watchdog: watchdog / 2, logger: logger}, nil
}

// Run tells systemd that the service is ready, in words what it does, and at each half of WatchdogSec that the drain's own
// goroutine answers. From the trigger on it asks for more time, so that no stop is cut short; how long a drain may last is
// --grace-period's to say. What cannot be said is tried again with the next word. It returns when ctx ends.
func (s *Service) Run(ctx context.Context, d Drain) error {
	s.say(daemon.SdNotifyReady, "STATUS="+words(d.Status()))
	begun := d.Begun()
	watchdog := time.Tick(s.watchdog) // never, where there is none
	var speech <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-begun:
			begun, speech = nil, time.Tick(spoken)
			s.tell(d)
		case <-speech:
			s.tell(d)
		case <-watchdog:
			d.Status()
			s.say(daemon.SdNotifyWatchdog)
		}
	}
}

// Stopping tells systemd that SIGTERM has been heard. A nil Service tells nobody.
func (s *Service) Stopping() {
	if s != nil {
		s.say(daemon.SdNotifyStopping)
	}
}

// tell says how a drain stands.
func (s *Service) tell(d Drain) {
	s.say("STATUS="+words(d.Status()), fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extension.Microseconds()))
}

func words(s drain.Status) string {
	if s.WaitsFor == "" {
		return string(s.Phase)
	}
	return string(s.Phase) + ": " + s.WaitsFor
}

// say sends assignments in one datagram. A line break would begin another.
func (s *Service) say(assignments ...string) {
	for i, a := range assignments {
		assignments[i] = strings.ReplaceAll(a, "\n", " ")
	}
	if _, err := daemon.SdNotify(false, strings.Join(assignments, "\n")); err != nil {
		s.failed.Do(func() { s.logger.Warn("systemd cannot be told", "error", err) })
	}
}
