// Package app is the application that the pods of the world run: a server with a choice of manners on SIGTERM.
package app

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// Header names the application that answered, ID the request, so that both ends can be matched.
const (
	Header = "X-App"
	ID     = "X-Id"
)

// Stranger is the name of an application of another service.
const Stranger = "stranger"

type options struct {
	name, protocol, listen, onTerm, served, checks string
	cert, key                                      string
	serveFor                                       time.Duration
	perRequest, leaveChild, greets                 bool
}

// Main runs the application until a signal ends it, and returns its exit status.
func Main(args []string) int {
	var o options
	flags := flag.NewFlagSet("app", flag.ExitOnError)
	flags.StringVar(&o.name, "name", "app", "what it calls itself in the X-App header")
	flags.StringVar(&o.protocol, "protocol", "", "empty and h2: HTTP/1.1 and HTTP/2; grpc; tcp")
	flags.BoolVar(&o.greets, "greets", false, "tcp: speak first")
	flags.StringVar(&o.listen, "listen", "0.0.0.0:8080", "address to listen on")
	flags.StringVar(&o.onTerm, "on-term", "exit", "exit, graceful, serve, ignore")
	flags.StringVar(&o.served, "served", "", "file that the ids of served requests are appended to")
	flags.StringVar(&o.checks, "checks", "", "file that answered health checks are appended to, a line each")
	flags.StringVar(&o.cert, "cert", "", "file of a certificate; TLS is spoken if it is given")
	flags.StringVar(&o.key, "key", "", "file of the certificate's key")
	flags.DurationVar(&o.serveFor, "serve-for", 5*time.Second, "how long `serve` goes on")
	flags.BoolVar(&o.perRequest, "per-request", false, "close each connection after one request")
	flags.BoolVar(&o.leaveChild, "leave-child", false, "start a child that inherits the listener")
	_ = flags.Parse(args)
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		return 1
	}
	return 0
}

func run(o options) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	book, err := openBook(o.served, o.checks)
	if err != nil {
		return err
	}
	listener, err := listen(o)
	if err != nil {
		return err
	}
	if o.leaveChild {
		if err := leaveChild(listener.(*net.TCPListener)); err != nil {
			return err
		}
	}
	server, listener, err := newServer(o, book, listener)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	for {
		select {
		case err := <-failed:
			return err
		case <-term:
			if done, err := end(o, server); done {
				return err
			}
		}
	}
}

// listen opens the application's port. A wildcard IPv4 address must give an AF_INET listener, as most runtimes make it;
// Go's "tcp" would make [::].
func listen(o options) (net.Listener, error) {
	network := "tcp"
	if host, _, err := net.SplitHostPort(o.listen); err == nil && net.ParseIP(host).To4() != nil {
		network = "tcp4"
	}
	return net.Listen(network, o.listen)
}

// end does what the application does on SIGTERM, and tells whether it exits.
func end(o options, server server) (bool, error) {
	switch o.onTerm {
	case "ignore":
		return false, nil
	case "serve":
		<-time.After(o.serveFor)
		return true, nil
	case "graceful":
		return true, server.Shutdown(context.Background())
	default:
		return true, nil
	}
}
