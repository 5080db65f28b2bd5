package app

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"
)

// server is what answers on the port. Shutdown is the graceful end: no new connection, and nothing begun is cut.
type server interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// newServer returns the server that the options ask for, and the listener with TLS around it if they ask for that.
func newServer(o options, b book, listener net.Listener) (server, net.Listener, error) {
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, nil, err
		}
		listener = tls.NewListener(listener, &tls.Config{
			Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
		})
	}
	return newHTTP(o, b), listener, nil
}

// newHTTP speaks HTTP/1.1, HTTP/2 with prior knowledge, and gRPC, all on one port.
func newHTTP(o options, b book) *http.Server {
	web, rpc := &handler{o.name, b}, newGRPC(o.name, b)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			rpc.ServeHTTP(w, r)
			return
		}
		web.ServeHTTP(w, r)
	})
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.SetKeepAlivesEnabled(!o.perRequest)
	return server
}
