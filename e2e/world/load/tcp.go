package load

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"strings"

	"lameduck/e2e/world"
)

// tcp makes one session of lines: a greeting if the application gives one, a message, its answer, the close.
func (r *run) tcp(ctx context.Context, s world.Stream, to string, id int) outcome {
	l, err := dialLine(ctx, to)
	if err != nil {
		return outcome{kind: "reset"}
	}
	defer l.close()
	if r.greets {
		_, err = l.read()
	}
	if err == nil {
		err = l.write(message(s, id))
	}
	var answer string
	if err == nil {
		answer, err = l.read()
	}
	return outcome{kind: answered(answer, err, id), port: l.port}
}

// line is a TCP connection that carries lines.
type line struct {
	conn net.Conn
	in   *bufio.Reader
	port uint16
	free func() bool
}

// dialLine connects. When the context ends, so does the connection.
func dialLine(ctx context.Context, to string) (*line, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	return &line{
		conn: conn, in: bufio.NewReader(conn), port: netip.MustParseAddrPort(conn.LocalAddr().String()).Port(),
		free: context.AfterFunc(ctx, func() { _ = conn.Close() }),
	}, nil
}

func (l *line) close() {
	l.free()
	_ = l.conn.Close()
}

func (l *line) read() (string, error) {
	text, err := l.in.ReadString('\n')
	return strings.TrimSuffix(text, "\n"), err
}

func (l *line) write(text string) error {
	_, err := l.conn.Write([]byte(text + "\n"))
	return err
}
