// Package load is the client of the world: it sends requests open-loop, so that one that is stuck holds no other back,
// and keeps each failure with its time and kind.
package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"lameduck/e2e/world"
	"lameduck/e2e/world/app"
)

// Config is read from the standard input.
type Config struct {
	// Envoys are the base URLs of the proxies, used in turn.
	Envoys []string
	// Pod is the address of the pod that direct streams and the crowd go to.
	Pod     string
	Streams []world.Stream
	Crowd   world.Crowd
}

// Name is how a request is named in the app.ID header. All are equally long, or equal requests would not be.
func Name(id int) string { return fmt.Sprintf("%06d", id) }

// Main reads a Config, sends one request through each Envoy until it is answered, writes a line with the start's time
// in Unix nanoseconds, sends the load, and writes a world.Outcome as JSON.
func Main(in io.Reader, out io.Writer) error {
	var config Config
	if err := json.NewDecoder(in).Decode(&config); err != nil {
		return fmt.Errorf("load: read config: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 2048, DisableCompression: true, IdleConnTimeout: time.Minute,
	}}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	for _, envoy := range config.Envoys {
		if err := warmUp(client, envoy); err != nil {
			return err
		}
	}
	start := time.Now()
	if _, err := fmt.Fprintln(out, start.UnixNano()); err != nil {
		return err
	}
	r := &run{client: client, fresh: fresh, envoys: config.Envoys, pod: config.Pod, start: start}
	crowd := make(chan error, 1)
	go func() { crowd <- gather(config.Crowd, config.Pod, start) }()
	r.sendAll(config.Streams)
	if err := <-crowd; err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return json.NewEncoder(out).Encode(r.outcome())
}

// warmUp asks an Envoy until it answers 200, for 20 s.
func warmUp(client *http.Client, envoy string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, envoy+"/", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("load: %s never answered: %w", envoy, err)
		case <-pause.C:
		}
	}
}

// run is one load being sent.
type run struct {
	client, fresh *http.Client
	envoys        []string
	pod           string
	start         time.Time

	requests sync.WaitGroup
	mu       sync.Mutex
	nextID   int
	took     []time.Duration
	failures []world.Failure
}

// sendAll sends all streams and waits for the last answer.
func (r *run) sendAll(streams []world.Stream) {
	var senders sync.WaitGroup
	for _, s := range streams {
		senders.Go(func() { r.send(s) })
	}
	senders.Wait()
	r.requests.Wait()
}

// send sends one stream: request i leaves at From + i/Rate.
func (r *run) send(s world.Stream) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := 0; ; i++ {
		at := s.From + time.Duration(float64(i)/s.Rate*float64(time.Second))
		if at >= s.Until {
			return
		}
		timer.Reset(time.Until(r.start.Add(at)))
		<-timer.C
		id := r.newID()
		r.requests.Go(func() { r.request(s, id) })
	}
}

func (r *run) newID() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nextID++
	return r.nextID
}

// request sends one request and keeps how it went.
func (r *run) request(s world.Stream, id int) {
	sent := time.Now()
	kind := r.exchange(s, id)
	took := time.Since(sent)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, took)
	if kind != "" {
		r.failures = append(r.failures, world.Failure{ID: id, Stream: s.Name, At: sent.Sub(r.start), Took: took, Kind: kind})
	}
}

// exchange returns the kind of failure, or "".
func (r *run) exchange(s world.Stream, id int) string {
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	if s.Connect {
		return connect(ctx, r.pod)
	}
	client, url := r.client, r.envoys[id%len(r.envoys)]
	if s.Direct {
		url = "http://" + r.pod
		if !s.Keep {
			client = r.fresh
		}
	}
	url += s.Path
	if s.Delay > 0 {
		url += "?delay=" + s.Delay.String()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set(app.ID, Name(id))
	resp, err := client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	switch {
	case ctx.Err() != nil:
		return "timeout"
	case err != nil:
		return "reset"
	case resp.StatusCode != http.StatusOK:
		return strconv.Itoa(resp.StatusCode)
	case resp.Header.Get(app.Header) == app.Stranger:
		return "stranger"
	}
	return ""
}
