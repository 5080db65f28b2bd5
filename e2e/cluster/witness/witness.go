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

// Main runs a witness until it is told to end.
func Main(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("witness", flag.ExitOnError)
	listen := flags.String("listen", "", "address to answer on")
	linger := flags.Duration("linger", 0, "how long to go on after SIGTERM; -1s is for ever")
	run := flags.Duration("run", 0, "end by itself after this time; 0: never")
	sick := flags.Duration("sick", 0, "answer /live with 500 from this time on; 0: never")
	_ = flags.Parse(args)
	say := func(what string) { _, _ = fmt.Fprintln(out, what) }
	say(Started)
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	failed := make(chan error, 1)
	if *listen != "" {
		server := &http.Server{Addr: *listen, Handler: answers(say, *sick), ReadHeaderTimeout: time.Minute}
		go func() { failed <- server.ListenAndServe() }()
		defer func() { _ = server.Close() }()
	}
	var own <-chan time.Time
	if *run > 0 {
		own = time.After(*run)
	}
	for {
		select {
		case err := <-failed:
			return err
		case <-own:
			say(Ends)
			return nil
		case <-term:
			say(Term)
			if *linger >= 0 {
				own = time.After(*linger)
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
