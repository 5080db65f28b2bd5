// Package app is the application that the pods of the world run: an HTTP server with a choice of manners on SIGTERM.
package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
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
	name, listen, onTerm, served string
	serveFor                     time.Duration
	perRequest, leaveChild       bool
}

// Main runs the application until a signal ends it, and returns its exit status.
func Main(args []string) int {
	var o options
	flags := flag.NewFlagSet("app", flag.ExitOnError)
	flags.StringVar(&o.name, "name", "app", "what it calls itself in the X-App header")
	flags.StringVar(&o.listen, "listen", "0.0.0.0:8080", "address to listen on")
	flags.StringVar(&o.onTerm, "on-term", "exit", "exit, graceful, serve, ignore")
	flags.StringVar(&o.served, "served", "", "file that the ids of served requests are appended to")
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
	handler, err := newHandler(o.name, o.served)
	if err != nil {
		return err
	}
	// A wildcard IPv4 address must give an AF_INET listener, as most runtimes make it; Go's "tcp" would make [::].
	network := "tcp"
	if host, _, err := net.SplitHostPort(o.listen); err == nil && net.ParseIP(host).To4() != nil {
		network = "tcp4"
	}
	listener, err := net.Listen(network, o.listen)
	if err != nil {
		return err
	}
	if o.leaveChild {
		if err := leaveChild(listener.(*net.TCPListener)); err != nil {
			return err
		}
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	server.SetKeepAlivesEnabled(!o.perRequest)
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

// end does what the application does on SIGTERM, and tells whether it exits.
func end(o options, server *http.Server) (bool, error) {
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

// leaveChild starts a process that holds the listener until its container is killed.
func leaveChild(listener *net.TCPListener) error {
	file, err := listener.File()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, "child")
	child.ExtraFiles = []*os.File{file}
	return child.Start()
}

// Child holds whatever it inherited until it is killed, deaf to SIGTERM.
func Child() {
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	for {
		<-term
	}
}

// Shell is the entry process of a container whose application is not PID 1: it passes SIGTERM on, and ends when no
// process is left in the container, or by being killed.
func Shell(args []string) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	main := exec.Command(self, args...)
	main.Stdout, main.Stderr = os.Stdout, os.Stderr
	if err := main.Start(); err != nil {
		return 1
	}
	pid := main.Process.Pid
	go func() {
		for range term {
			_ = unix.Kill(pid, unix.SIGTERM)
		}
	}()
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return 0
		}
	}
}
