package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// DefaultAddress is where the admin paths are served when nothing else is said.
const DefaultAddress = ":8420"

const (
	// readTimeout bounds the arrival of a request, writeTimeout the departure of an answer. A hold lifts the latter.
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	// noTimeout: idle connections stay, Envoy's too, which may be asked on once a minute (no_traffic_interval). Others may have
	// their places when they are wanted. A timeout would cost what it shall save: where a request is under way when an HTTP/2
	// connection ends, net/http starts the connection's idle timer anew (Go 1.26, closeStream), and keeps all of it until then.
	noTimeout = -1
	// appHealthTimeout bounds the question after the application's health. Envoy's checks wait a second by default.
	appHealthTimeout = 900 * time.Millisecond
	// shutdownTimeout bounds the wait for the last answers to leave.
	shutdownTimeout = 500 * time.Millisecond
	maxHeaderBytes  = 8 << 10
	// maxStreams bounds the requests at once on one HTTP/2 connection: a checker has one, a pod's containers few.
	maxStreams = 4
	// maxBody bounds what is kept of the bodies on one HTTP/2 connection, which nobody reads but gRPC's calls;
	// net/http allows no less.
	maxBody, maxStreamBody = 64 << 10, 16 << 10
	// maxFrame bounds a frame, which is read as a whole whatever it is; HTTP/2 allows no less.
	maxFrame = 16 << 10
	// maxReports bounds the answers with a body of some size that are on their way at once.
	maxReports = 16
)

// Options configures a Server.
type Options struct {
	// Address is host:port; empty stands for DefaultAddress.
	Address string
	Backend Backend
	// Version is shown as a metric; empty stands for "unknown".
	Version string
	// Certificate lets the port speak TLS, too; nil leaves it at cleartext.
	Certificate *Certificate
	// Places bounds the connections; nil stands for what suits where open files are plenty.
	Places *Places
	Logger *slog.Logger
}

// Server serves the admin paths and gRPC's health over HTTP/1.1 and HTTP/2, in TLS and without, all on one port.
type Server struct {
	handler  *handler
	listener *limiter
	logger   *slog.Logger

	read, write time.Duration // readTimeout and writeTimeout, shorter in tests
}

// Listen opens the port; connections wait in it until Run. The error says so when the address is in use.
func Listen(options Options) (*Server, error) {
	if options.Address == "" {
		options.Address = DefaultAddress
	}
	places := cmp.Or(options.Places, allPlaces())
	listener, err := net.Listen("tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if options.Certificate != nil {
		listener = newEither(listener, options.Certificate)
	}
	return &Server{
		handler: &handler{
			backend: options.Backend, version: options.Version,
			watches: make(chan struct{}, maxWatches), reports: make(chan struct{}, maxReports),
		},
		listener: limit(listener, places.Connections, places.Holds),
		logger:   discardIfNil(options.Logger),
		read:     readTimeout,
		write:    writeTimeout,
	}, nil
}

// Addr is the address that is listened on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Run serves until ctx ends; then every hold is answered, and Run returns nil within about half a second. Call it once.
func (s *Server) Run(ctx context.Context) error {
	server := s.httpServer(ctx)
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("admin: %w", err)
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(within); err != nil {
		s.logger.Debug("admin: answers were still leaving at the end", "error", err)
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

func (s *Server) httpServer(ctx context.Context) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:   s.handler,
		Protocols: protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: maxBody, MaxReceiveBufferPerStream: maxStreamBody,
			MaxReadFrameSize: maxFrame,
		},
		DisableGeneralOptionsHandler: true, // OPTIONS * is refused like all the rest
		ReadTimeout:                  s.read,
		WriteTimeout:                 s.write,
		IdleTimeout:                  noTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		ErrorLog:                     slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
}

// connKey finds the connection of a request in its context.
type connKey struct{}

func connOf(r *http.Request) *limited {
	conn, _ := r.Context().Value(connKey{}).(*limited)
	return conn
}

func discardIfNil(logger *slog.Logger) *slog.Logger {
	if logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return logger
}
