package admin

import (
	"crypto/tls"
	"net"
	"time"
)

// handshake is how a TLS connection begins: the type of its first record (RFC 8446, 5.1). No method of HTTP/1 begins so, nor
// does HTTP/2.
const handshake = 0x16

// eitherListener takes connections that speak TLS or do not, so that Envoy may check in TLS, as it does where its cluster
// has a TLS transport socket, while hooks and probes speak plain HTTP on the same port.
type eitherListener struct {
	net.Listener
	config *tls.Config
}

func newEither(listener net.Listener, certificate *Certificate) net.Listener {
	return eitherListener{listener, &tls.Config{
		GetCertificate: certificate.present,
		NextProtos:     []string{"h2", "http/1.1"},
		MinVersion:     tls.VersionTLS12,
	}}
}

func (l eitherListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &either{Conn: conn, config: l.config}, nil
}

// either is a connection whose first byte tells what it speaks. It is looked at when the server first reads, under the
// server's own deadline: so a silent client holds nobody up. The HTTP server sees plain text either way, and tells HTTP/2 by
// its preface.
//
// Closing says no farewell in TLS (close_notify): that may block for 5 s, and all that is sent here tells its own length.
type either struct {
	net.Conn
	config *tls.Config
	speaks net.Conn // what it turned out to be; set by the first Read, before anything is written
	failed error
}

func (e *either) Read(p []byte) (int, error) {
	if e.speaks == nil && e.failed == nil {
		e.failed = e.listen()
	}
	if e.failed != nil {
		return 0, e.failed
	}
	return e.speaks.Read(p)
}

func (e *either) Write(p []byte) (int, error) {
	if e.speaks == nil {
		return 0, net.ErrClosed
	}
	return e.speaks.Write(p)
}

// listen finds out what the client speaks.
func (e *either) listen() error {
	first := &begun{Conn: e.Conn, byte: make([]byte, 1)}
	if _, err := e.Conn.Read(first.byte); err != nil {
		return err
	}
	if first.byte[0] != handshake {
		e.speaks = first
		return nil
	}
	// The server bounds reading from here on, and writing only once a request has come.
	if err := e.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	conn := tls.Server(first, e.config)
	e.speaks = conn
	return conn.Handshake()
}

// begun is a connection whose first byte has been read.
type begun struct {
	net.Conn
	byte []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.byte) > 0 && len(p) > 0 {
		n := copy(p, b.byte)
		b.byte = b.byte[n:]
		return n, nil
	}
	return b.Conn.Read(p)
}
