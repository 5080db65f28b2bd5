// Package load is the client of the world: it sends requests open-loop, so that one that is stuck holds no other back,
// and keeps each failure with its time and kind.
package load

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"lameduck/e2e/world"
)

// Config is read from the standard input.
type Config struct {
	// Envoys are the proxies' addresses, used in turn.
	Envoys []string
	// Pod is the address of the pod that direct streams and the crowd go to.
	Pod      string
	Streams  []world.Stream
	Sessions []world.Session
	Crowd    world.Crowd
	// WarmUp is the call that an Envoy has to answer before the load starts, Greets whether TCP applications speak first.
	WarmUp world.Call
	Greets bool
}

// Name is how a request is named in the app.ID header. All are equally long, or equal requests would not be. Number 0 is
// for what is no request of the load.
func Name(id int) string { return fmt.Sprintf("%06d", id) }

// Main reads a Config, sends one request through each Envoy until it is answered, writes a line with the start's time
// in Unix nanoseconds, sends the load, and writes a world.Outcome as JSON.
func Main(in io.Reader, out io.Writer) error {
	var config Config
	if err := json.NewDecoder(in).Decode(&config); err != nil {
		return fmt.Errorf("load: read config: %w", err)
	}
	r := newRun(config)
	for _, envoy := range config.Envoys {
		if err := r.warmUp(config.WarmUp, envoy); err != nil {
			return err
		}
	}
	r.start = time.Now()
	if _, err := fmt.Fprintln(out, r.start.UnixNano()); err != nil {
		return err
	}
	crowd := make(chan error, 1)
	go func() { crowd <- gather(config.Crowd, config.Pod, r.start) }()
	r.keep(config.Sessions)
	r.sendAll(config.Streams)
	if err := <-crowd; err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return json.NewEncoder(out).Encode(r.outcome())
}

// warmUp makes calls to an Envoy until one succeeds, for 20 s.
func (r *run) warmUp(call world.Call, envoy string) error {
	late := time.After(20 * time.Second)
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		how := r.exchange(world.Stream{Call: call, Path: "/", Timeout: time.Second}, envoy, 0)
		if how.kind == "" {
			return nil
		}
		select {
		case <-late:
			return fmt.Errorf("load: %s never answered: %s", envoy, how.kind)
		case <-pause.C:
		}
	}
}

// run is one load being sent.
type run struct {
	client, fresh *http.Client
	envoys        []string
	pod           string
	greets        bool
	start         time.Time

	requests sync.WaitGroup
	mu       sync.Mutex
	nextID   int
	took     []time.Duration
	failures []world.Failure
	sessions []world.SessionEnd
	channels map[string]*grpc.ClientConn
}

func newRun(config Config) *run {
	return &run{
		client: &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 2048, DisableCompression: true, IdleConnTimeout: time.Minute,
		}},
		fresh:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}},
		envoys: config.Envoys, pod: config.Pod, greets: config.Greets, channels: make(map[string]*grpc.ClientConn),
	}
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

// target is where a call goes.
func (r *run) target(s world.Stream, id int) string {
	if s.Direct || s.Connect {
		return r.pod
	}
	return r.envoys[id%len(r.envoys)]
}

// request makes one call and keeps how it went.
func (r *run) request(s world.Stream, id int) {
	sent := time.Now()
	how := r.exchange(s, r.target(s, id), id)
	took := time.Since(sent)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, took)
	if how.kind != "" {
		r.failures = append(r.failures, world.Failure{
			ID: id, Stream: s.Name, At: sent.Sub(r.start), Took: took, Kind: how.kind, Detail: how.detail, Port: how.port,
		})
	}
}
