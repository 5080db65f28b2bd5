package app

import (
	"bufio"
	"context"
	"net"
	"strings"
)

// tcpServer exchanges lines over TCP.
type tcpServer struct {
	name     string
	greets   bool
	book     book
	sessions sessions
	ended    chan struct{} // closed at the graceful end
	listener chan net.Listener
}

func newTCP(o options, b book) *tcpServer {
	return &tcpServer{
		name: o.name, greets: o.greets, book: b, ended: make(chan struct{}), listener: make(chan net.Listener, 1),
	}
}

func (s *tcpServer) Serve(l net.Listener) error {
	s.listener <- l
	for {
		conn, err := l.Accept()
		if err != nil {
			select {
			case <-s.ended:
				select {} // Shutdown tells when it is over
			default:
				return err
			}
		}
		go s.serve(conn)
	}
}

func (s *tcpServer) Shutdown(context.Context) error {
	close(s.ended)
	if err := (<-s.listener).Close(); err != nil {
		return err
	}
	s.sessions.end()
	return nil
}

func (s *tcpServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	one := s.sessions.add(func() { _ = conn.Close() })
	defer one.close()
	l := lines{conn, bufio.NewReader(conn)}
	if s.greets && l.write("hello "+s.name) != nil {
		return
	}
	converse(context.Background(), s.name, s.book, one, l)
}

// lines are texts with line feeds between them.
type lines struct {
	conn net.Conn
	in   *bufio.Reader
}

func (l lines) read() (string, error) {
	text, err := l.in.ReadString('\n')
	return strings.TrimSuffix(text, "\n"), err
}

func (l lines) write(text string) error {
	_, err := l.conn.Write([]byte(text + "\n"))
	return err
}
