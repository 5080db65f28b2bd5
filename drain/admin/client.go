package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"lameduck/drain"
)

const (
	// clientTimeout bounds the calls that are answered at once.
	clientTimeout = 5 * time.Second
	// maxAnswer bounds an answer: a status with a ledger of 10,000 sources takes about 2 MB.
	maxAnswer = 16 << 20
)

// names are the control sockets to ask, best first: that of the sidecar in this container, or else the one that the pod's
// other containers reach.
func names() []string {
	own, err := OwnName()
	if err != nil {
		return []string{ControlName}
	}
	return []string{own, ControlName}
}

// Drain starts the drain of the sidecar in this container, or else of that in this network namespace. It returns at once; once it is drained or draining,
// it changes nothing.
func Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	_, err := call(ctx, names(), "drain")
	return err
}

// Hold waits until the sidecar releases the hold. An error tells that the wait has not been what it should:
// no sidecar is there, it went away, or ctx has ended.
func Hold(ctx context.Context) error {
	_, err := call(ctx, names(), "hold")
	return err
}

// FetchStatus asks the same sidecar for the state of its drain.
func FetchStatus(ctx context.Context) (drain.Status, error) {
	return fetchStatus(ctx, names())
}

func fetchStatus(ctx context.Context, names []string) (drain.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	var status drain.Status
	body, err := call(ctx, names, "status")
	if err != nil {
		return status, err
	}
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		return status, fmt.Errorf("admin: the sidecar's status: %w", err)
	}
	return status, nil
}

// dial opens the first of the control sockets that is served.
func dial(ctx context.Context, names []string) (conn net.Conn, err error) {
	var dialer net.Dialer
	for _, name := range names {
		if conn, err = dialer.DialContext(ctx, "unix", name); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("admin: no lameduck serves %s in this network namespace; run this in the sidecar's container, or in its pod: %w", strings.Join(names, " or "), err)
}

// call sends one command and returns what follows "ok" in the answer.
func call(ctx context.Context, names []string, command string) (string, error) {
	conn, err := dial(ctx, names)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	answer, err := exchange(conn, command)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("admin: %s: %w", command, ctx.Err())
	case errors.Is(err, io.EOF):
		return "", fmt.Errorf("admin: %s: the sidecar went away without an answer", command)
	case err != nil:
		return "", fmt.Errorf("admin: %s: %w", command, err)
	}
	word, rest, _ := strings.Cut(answer, " ")
	if word != "ok" {
		return "", fmt.Errorf("admin: %s: the sidecar answered %q", command, answer)
	}
	return rest, nil
}

func exchange(conn net.Conn, command string) (string, error) {
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(io.LimitReader(conn, maxAnswer)).ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}
