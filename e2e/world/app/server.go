package app

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
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
	switch o.protocol {
	case "grpc":
		return grpcServer{newGRPC(o.name, b)}, listener, nil
	case "tcp":
		return newTCP(o, b), listener, nil
	}
	return newHTTP(o, b), listener, nil
}

// webServer speaks HTTP/1.1, HTTP/2 with prior knowledge, and WebSocket; and answers gRPC's health checks beside them.
type webServer struct {
	*http.Server
	sessions *sessions
}

func newHTTP(o options, b book) webServer {
	open := &sessions{}
	web, health := &handler{name: o.name, book: b, sessions: open}, newGRPC(o.name, b)
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Type") == "application/grpc" {
				health.ServeHTTP(w, r)
				return
			}
			web.ServeHTTP(w, r)
		}),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.SetKeepAlivesEnabled(!o.perRequest)
	return webServer{server, open}
}

// Shutdown also ends the WebSocket sessions, which net/http leaves alone.
func (s webServer) Shutdown(ctx context.Context) error {
	err := s.Server.Shutdown(ctx)
	s.sessions.end()
	return err
}

// grpcServer is a gRPC server as grpc-go has it: it says GOAWAY and waits for its streams, however long.
type grpcServer struct{ *grpc.Server }

func (s grpcServer) Shutdown(context.Context) error {
	s.GracefulStop()
	return nil
}
