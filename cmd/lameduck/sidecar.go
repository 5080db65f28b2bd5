package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lameduck/drain"
	"lameduck/drain/admin"
	"lameduck/drain/host"
	"lameduck/drain/kube"
	"lameduck/netns"
	"lameduck/netns/sockdiag"
	"lameduck/netns/takeover"
)

// runSidecar runs the drain until its end and returns the exit status.
func runSidecar(ctx context.Context, o options, env []string, signals <-chan os.Signal, stdout, stderr io.Writer) int {
	said, spoken := newOutlet(stderr), newOutlet(stdout)
	stderr = said
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	left := newOutlet(&message{path: terminationLog, logger: logger})
	defer closeOutlets(left, spoken, said)
	for _, note := range o.notes {
		logger.Warn("flags", "note", note)
	}
	certificate, err := o.certificate(logger)
	if err != nil {
		fmt.Fprintf(stderr, "lameduck: %v\n", err)
		return exitUsage
	}
	s := &sidecar{logger: logger, spoken: io.MultiWriter(spoken, left)}
	places := admin.PlacesFor(takeover.FileLimit(logger))
	o.takeover.FilesKept = places.Files()
	s.build(o)
	s.buildDiscovery(o.kube, lookup(env))
	server, err := admin.Listen(admin.Options{Address: o.adminAddress, Backend: s.drain, Version: version(),
		Certificate: certificate, Places: places, Logger: logger})
	if err != nil {
		fmt.Fprintf(stderr, "lameduck: --admin-address %q: %v; %s\n", o.adminAddress, err, listenAdvice(err))
		return exitUsage
	}
	logger.Info("phase", "phase", drain.Serving, "reason", "start", "version", version(), "admin", server.Addr().String(),
		"grace_period", o.drain.GracePeriod, "relay_targets", len(o.takeover.Targets))
	ctx, cancel := context.WithCancel(ctx)
	defer s.work.Wait()
	defer cancel()
	s.start(ctx, "admin", server.Run)
	s.start(ctx, "takeover", s.taker.Run)
	s.startControl(ctx, o.drain.NodeIPs, places)
	s.startDiscovery(ctx)
	s.startWatching(ctx)
	s.startService(ctx)
	s.work.Go(func() { s.obey(ctx, signals) })
	if _, err := s.drain.Run(ctx); err != nil {
		fmt.Fprintf(stderr, "lameduck: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// obey takes every signal for SIGTERM, until ctx ends.
func (s *sidecar) obey(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case signal := <-signals:
			if signal != syscall.SIGTERM {
				s.logger.Info("taken for SIGTERM", "signal", signal.String())
			}
			s.drain.Terminate()
			s.service.Stopping()
		case <-ctx.Done():
			return
		}
	}
}

// listenAdvice says what mends a listen that failed.
func listenAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "free the port, or name another"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "nothing here has that address; leave the host out for all addresses"
	case errors.Is(err, syscall.EACCES):
		return "name a port above 1023, or lower net.ipv4.ip_unprivileged_port_start"
	}
	return "name another address"
}

// certificate reads what --admin-cert and --admin-key name; nil where they name nothing.
func (o options) certificate(logger *slog.Logger) (*admin.Certificate, error) {
	if o.adminCert == "" {
		return nil, nil
	}
	certificate, err := admin.LoadCertificate(o.adminCert, o.adminKey, logger)
	if err != nil {
		return nil, fmt.Errorf("--admin-cert %q, --admin-key %q: %w; both must be PEM, belong together and be readable for uid %d",
			o.adminCert, o.adminKey, err, os.Getuid())
	}
	return certificate, nil
}

// sidecar holds the parts of a running lameduck together.
type sidecar struct {
	logger  *slog.Logger
	spoken  io.Writer // takes the last words, and never fails or blocks
	drain   *drain.Drain
	taker   *takeover.Takeover
	kernel  kernel
	kube    *kube.Discovery
	service *host.Service // nil where systemd does not run this
	work    sync.WaitGroup
}

func (s *sidecar) build(o options) {
	o.takeover.Logger = s.logger
	o.takeover.Notify = func(e takeover.Event) { s.drain.Took(e) }
	s.taker = takeover.New(o.takeover)
	d := drain.Options{Config: o.drain, Kernel: s.kernel.functions(), Taker: s.taker, Speak: s.speak, Logger: s.logger}
	if o.appHealth != "" {
		d.AppHealth = func(ctx context.Context) error { return askHealth(ctx, o.appHealth) }
	}
	s.drain = drain.New(d)
}

// start runs a part until ctx ends. A part that fails before is said, and the drain goes on without it.
func (s *sidecar) start(ctx context.Context, name string, run func(context.Context) error) {
	s.work.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				s.logger.Error("internal error", "part", name, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
				s.drain.Degrade(false, "%s failed by an internal error", name)
			}
		}()
		if err := run(ctx); err != nil && ctx.Err() == nil {
			s.drain.Degrade(false, "%s failed: %v", name, err)
		}
	})
}

// startWatching subscribes to destroy events: at first to those of listeners only, so that idle stays idle.
func (s *sidecar) startWatching(ctx context.Context) {
	watcher, err := sockdiag.Watch()
	if err == nil {
		err = watcher.FilterListeners()
	}
	if err != nil {
		s.work.Go(func() {
			s.drain.Degrade(true, "destroy events cannot be had (%v): traffic cannot be watched, the hold is a sleep", err)
		})
		return
	}
	s.kernel.setWatcher(watcher)
	s.work.Go(func() {
		defer watcher.Close()
		if err := watcher.Run(ctx, s.drain.Hear); err != nil {
			s.drain.Degrade(true, "destroy events have ended (%v): traffic cannot be watched, the hold is a sleep", err)
		}
	})
}

// startService tells systemd, where it runs this as a service of Type=notify.
func (s *sidecar) startService(ctx context.Context) {
	service, err := host.Find(s.logger)
	if err != nil {
		s.logger.Warn("systemd's watchdog is not fed", "error", err)
	}
	if s.service = service; service != nil {
		s.start(ctx, "notify", func(ctx context.Context) error { return service.Run(ctx, s.drain) })
	}
}

// speak writes the last words where they outlive the pod.
func (s *sidecar) speak(w drain.LastWords) {
	line, err := json.Marshal(w)
	if err != nil {
		s.logger.Error("last words", "error", err)
		return
	}
	_, _ = s.spoken.Write(append(line, '\n'))
	if w.LastWords == "exit" {
		s.leaveEvent(w)
	}
}

// healthTimeout bounds a question to --app-health: shorter than a probe's usual second.
const healthTimeout = 900 * time.Millisecond

func askHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// A connection for each question: an idle one would be traffic to the application when it ends.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 399 {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// kernel opens what the drain asks for at the first use, and again where that failed.
type kernel struct {
	mu       sync.Mutex
	watcher  *sockdiag.Watcher
	dumper   *sockdiag.Dumper
	counters *netns.CounterReader
}

func (k *kernel) functions() drain.Kernel {
	return drain.Kernel{
		Dump:        k.dump,
		ProcDump:    sockdiag.ProcDump,
		FilterPorts: k.filterPorts,
		Counters:    k.count,
		CPU:         threadCPU,
		Addresses:   netns.Addresses,
		Gateways:    netns.Gateways,
	}
}

// threadCPU is the CPU time of the calling thread.
func threadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0 // Linux knows this clock since 2.6.12
	}
	return time.Duration(ts.Nano())
}

func (k *kernel) setWatcher(w *sockdiag.Watcher) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watcher = w
}

func (k *kernel) filterPorts(ports []uint16) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watcher == nil {
		return nil // said already
	}
	return k.watcher.FilterPorts(ports)
}

// dump is called by the drain's goroutine only.
func (k *kernel) dump(q sockdiag.Query, fn func(*sockdiag.Socket) bool) error {
	if k.dumper == nil {
		dumper, err := sockdiag.Open()
		if err != nil {
			return err
		}
		k.dumper = dumper
	}
	err := k.dumper.Dump(q, fn)
	if err != nil {
		k.dumper.Close() // what is left of a broken answer would be taken for the next one's
		k.dumper = nil
	}
	return err
}

// count is called by the drain's goroutine only.
func (k *kernel) count() (inSegs, refused uint64, err error) {
	if k.counters == nil {
		if k.counters, err = netns.OpenCounters(); err != nil {
			return 0, 0, err
		}
	}
	c, err := k.counters.Read()
	return c.InSegs, c.Refused(netns.Counters{}), err
}
