package admin

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ControlName is the control socket: an abstract unix socket, so it needs no file and belongs to a network namespace.
const ControlName = "@lameduck"

// OwnName is the control socket of the sidecar in the caller's container, which its own hook asks first. In the node's
// network (hostNetwork) the sidecars of several pods share the abstract names; a container's mount namespace is no other's,
// and a process that the kubelet starts in the container by an exec hook is in it too.
func OwnName() (string, error) {
	var mounts unix.Stat_t
	if err := unix.Stat("/proc/self/ns/mnt", &mounts); err != nil {
		return "", fmt.Errorf("admin: the container cannot be told from others: %w", err)
	}
	return fmt.Sprintf("%s/%d", ControlName, mounts.Ino), nil
}

const (
	// maxLine bounds a request of the control socket, its newline included.
	maxLine = 64
	// maxControls bounds the clients whose line has not come, maxShows those whose status they have not read.
	maxControls, maxShows = 128, 4
	// lineTimeout bounds the wait for a line: a client sends it with its connection.
	lineTimeout = time.Second
)

// ErrControlInUse tells that another lameduck serves this network namespace. (An abstract socket dies with its
// process, so nothing stale can be left behind.) The sidecar can go on without: SIGTERM still starts its drain.
var ErrControlInUse = errors.New("another lameduck in this network namespace has the control socket")

// Control serves the control socket.
type Control struct {
	backend  Backend
	listener net.Listener
	logger   *slog.Logger
	lobby    *lobby
	holds    chan struct{} // a place for each
	shows    chan struct{} // for each status

	read time.Duration // lineTimeout, shorter in tests
}

// ListenControl opens a control socket, of ControlName or OwnName. places may be nil, as in Options. The error is
// ErrControlInUse where another process has it.
func ListenControl(name string, backend Backend, places *Places, logger *slog.Logger) (*Control, error) {
	places = cmp.Or(places, allPlaces())
	listener, err := net.Listen("unix", name)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("admin: %w %s", ErrControlInUse, name)
	case err != nil:
		return nil, fmt.Errorf("admin: control socket: %w", err)
	}
	return &Control{
		backend:  backend,
		listener: listener,
		logger:   discardIfNil(logger),
		lobby:    newLobby(places.Lines),
		holds:    make(chan struct{}, places.ControlHolds),
		shows:    make(chan struct{}, places.Shows),
		read:     lineTimeout,
	}, nil
}

// Run serves until ctx ends; then every hold is answered and Run returns nil. Call it once.
func (c *Control) Run(ctx context.Context) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = c.listener.Close()
	})
	defer func() {
		if !stop() {
			<-closed // the name is free then
		}
	}()
	for {
		conn, err := c.listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED):
			c.pause(ctx, err)
			continue
		case err != nil:
			return fmt.Errorf("admin: control socket: %w", err)
		}
		if oldest := c.lobby.enter(ctx, conn); oldest != nil {
			c.answer(ctx, oldest, "error too many clients have sent no line")
			_ = oldest.Close()
		}
		clients.Go(func() { c.serve(ctx, conn) })
	}
}

// pause lets descriptors come back before the next accept; without it the loop would burn a core.
func (c *Control) pause(ctx context.Context, err error) {
	c.logger.Warn("control socket cannot accept", "error", err)
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
	}
}

// serve answers one line of one client.
func (c *Control) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(c.read))
	line, err := bufio.NewReaderSize(io.LimitReader(conn, maxLine), maxLine).ReadString('\n')
	c.lobby.leave(conn)
	if err != nil {
		c.answer(ctx, conn, "error no line of at most 63 bytes came: "+err.Error())
		return
	}
	switch command := strings.TrimSpace(line); command {
	case "drain":
		c.backend.Trigger("drain")
		c.answer(ctx, conn, "ok")
	case "hold":
		c.among(ctx, c.holds, conn, func() { c.hold(ctx, conn) })
	case "status":
		c.among(ctx, c.shows, conn, func() { c.show(ctx, conn) })
	default:
		c.answer(ctx, conn, fmt.Sprintf("error unknown command %q: drain, hold or status", command))
	}
}

// among serves a client that may stay, where there is a place for it. Who is told that there is none can wait by itself, as
// `lameduck hold` does.
func (c *Control) among(ctx context.Context, places chan struct{}, conn net.Conn, serve func()) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
		serve()
	default:
		c.answer(ctx, conn, fmt.Sprintf("error busy: %d others are served", cap(places)))
	}
}

func (c *Control) show(ctx context.Context, conn net.Conn) {
	body, err := json.Marshal(c.backend.Status())
	if err != nil {
		c.answer(ctx, conn, "error "+err.Error())
		return
	}
	c.answer(ctx, conn, "ok "+string(body))
}

// hold waits until the hold is released, ctx ends or the client goes.
func (c *Control) hold(ctx context.Context, conn net.Conn) {
	waits, cancel := context.WithCancel(ctx)
	defer cancel()
	_ = conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer cancel()
		_, _ = io.Copy(io.Discard, conn) // ends when the client closes, or by the deadline below
	}()
	c.backend.Hold(waits)
	_ = conn.SetReadDeadline(time.Unix(1, 0))
	<-gone
	c.answer(ctx, conn, "ok")
}

// answer writes a line. From the end of ctx on, who does not read it has the time of the last answers left.
func (c *Control) answer(ctx context.Context, conn net.Conn, line string) {
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Now().Add(shutdownTimeout)) })
	defer stop()
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		c.logger.Debug("control client left without its answer", "error", err)
	}
}
