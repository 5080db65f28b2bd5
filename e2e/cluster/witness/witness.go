// Package witness is a container that tells, a line each, what the kubelet does to it: its start, its hooks, its probes
// and its signals. It answers GET /NAME?for=3s after that time, so that it can be a hook of any length.
package witness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// What a witness says.
const (
	Started = "started"
	Term    = "SIGTERM"
	Ends    = "ends"
	// Asked and Answered are followed by the path.
	Asked    = "asked "
	Answered = "answered "
)

// options are how a witness behaves.
type options struct {
	listen            string
	late              bool
	linger, run, sick time.Duration
}

// Main runs a witness until it is told to end.
func Main(args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("witness", flag.ExitOnError)
	flags.StringVar(&o.listen, "listen", "", "address to answer on")
	flags.BoolVar(&o.late, "late", false, "listen from SIGTERM on only")
	flags.DurationVar(&o.linger, "linger", 0, "how long to go on after SIGTERM; -1s is for ever")
	flags.DurationVar(&o.run, "run", 0, "end by itself after this time; 0: never")
	flags.DurationVar(&o.sick, "sick", 0, "answer /live with 500 from this time on; 0: never")
	_ = flags.Parse(args)
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	return o.witness(term, func(what string) { _, _ = fmt.Fprintln(out, what) })
}

func (o options) witness(term <-chan os.Signal, say func(string)) error {
	say(Started)
	server := &http.Server{Addr: o.listen, Handler: answers(say, o.sick), ReadHeaderTimeout: time.Minute}
	defer func() { _ = server.Close() }()
	failed := make(chan error, 1)
	listen := func() { failed <- server.ListenAndServe() }
	if o.listen != "" && !o.late {
		go listen()
	}
	var end <-chan time.Time
	if o.run > 0 {
		end = time.After(o.run)
	}
	for {
		select {
		case err := <-failed:
			return err
		case <-end:
			say(Ends)
			return nil
		case <-term:
			say(Term)
			if o.late {
				go listen()
			}
			if o.linger >= 0 {
				end = time.After(o.linger)
			}
		}
	}
}

func answers(say func(string), sick time.Duration) http.Handler {
	start := time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		say(Asked + r.URL.Path)
		if wait, err := time.ParseDuration(r.URL.Query().Get("for")); err == nil {
			<-time.After(wait)
		}
		if r.URL.Path == "/live" && sick > 0 && time.Since(start) > sick {
			w.WriteHeader(http.StatusInternalServerError)
		}
		say(Answered + r.URL.Path)
	})
}

// Get asks a URL once and returns the answer's status, or how the connection failed: "refused" or "timeout".
func Get(ctx context.Context, url string) string {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return "refused"
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return "timeout"
	case err != nil:
		return err.Error()
	}
	_ = resp.Body.Close()
	return fmt.Sprint(resp.StatusCode)
}
