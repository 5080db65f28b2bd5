package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lameduck/netns/takeover"
)

// api is a made-up API server, which answers in memory so that a made-up clock can drive it.
type api struct {
	mu      sync.Mutex
	calls   []string // "LIST path?selector@version", "WATCH …", "POST path"
	bodies  []string
	slices  map[string]string // by name: JSON
	version int
	watches []*io.PipeWriter
	// answer, where it is set and gives an answer, replaces the usual one.
	answer func(call string, request *http.Request) (*http.Response, error)
}

func newAPI() *api { return &api{slices: map[string]string{}, version: 100} }

func (a *api) RoundTrip(request *http.Request) (*http.Response, error) {
	q := request.URL.Query()
	verb := "LIST"
	switch {
	case request.Method != http.MethodGet:
		verb = request.Method
	case q.Get("watch") == "true":
		verb = "WATCH"
	}
	call := strings.TrimSuffix(fmt.Sprintf("%s %s?%s@%s", verb, request.URL.Path, q.Get("labelSelector"), q.Get("resourceVersion")), "?@")
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.calls, a.bodies = append(a.calls, call), append(a.bodies, string(body))
	answer := a.answer
	a.mu.Unlock()
	if answer != nil {
		if response, err := answer(call, request); response != nil || err != nil {
			return response, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch verb {
	case "WATCH":
		reader, writer := io.Pipe()
		context.AfterFunc(request.Context(), func() { writer.CloseWithError(request.Context().Err()) })
		a.watches = append(a.watches, writer)
		return &http.Response{StatusCode: http.StatusOK, Body: reader}, nil
	case "POST":
		return reply(http.StatusCreated, string(body)), nil
	}
	var items []string
	for _, item := range a.slices {
		if key, value, ok := strings.Cut(q.Get("labelSelector"), "="); !ok || strings.Contains(item, fmt.Sprintf("%q:%q", key, value)) {
			items = append(items, item)
		}
	}
	return reply(http.StatusOK, fmt.Sprintf(`{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`,
		a.version, strings.Join(items, ","))), nil
}

func (a *api) CloseIdleConnections() {}

func reply(code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body))}
}

func status(code int, message string) *http.Response {
	return reply(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":%q}`, code, message))
}

// put changes a slice, and tells every watch.
func (a *api) put(kind string, s endpointSlice) {
	a.mu.Lock()
	a.version++
	s.Metadata.ResourceVersion = fmt.Sprint(a.version)
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	a.slices[s.Metadata.Name] = string(text)
	if kind == eventDeleted {
		delete(a.slices, s.Metadata.Name)
	}
	a.mu.Unlock()
	a.tell(fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, text))
}

// tell writes to every watch that is open.
func (a *api) tell(line string) {
	a.mu.Lock()
	watches := slices.Clone(a.watches)
	a.mu.Unlock()
	for _, w := range watches {
		_, _ = io.WriteString(w, line) // a closed one has its error
	}
}

// cut ends every watch.
func (a *api) cut(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.watches {
		w.CloseWithError(err)
	}
	a.watches = nil
}

func (a *api) set(answer func(string, *http.Request) (*http.Response, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

func (a *api) called() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

// heard is what a Discovery has told.
type heard struct {
	mu       sync.Mutex
	envoys   []netip.Addr
	peers    map[int][]takeover.Peer
	degraded []string
}

func (h *heard) addresses() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.envoys {
		all = append(all, a.String())
	}
	return all
}

// lines are a target's peers as text: "8080 10.0.0.2:80 near".
func (h *heard) lines(target int) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.peers[target] {
		line := fmt.Sprintf("%d %s", p.Port, p.Addr)
		if p.Near {
			line += " near"
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

func (h *heard) lacks() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.degraded)
}

var podAddr = netip.MustParseAddr("10.0.0.1")

// discover runs a Discovery against a made-up API server by a made-up clock, from body's first wait on until its end.
func discover(t *testing.T, o Options, body func(*testing.T, *api, *heard)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, h := newAPI(), &heard{peers: map[int][]takeover.Peer{}}
		d := discoveryOf(o, a, h)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() {
			time.Sleep(time.Nanosecond) // until body has set the API server up and lets time pass
			if err := d.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		defer work.Wait()
		defer cancel()
		body(t, a, h)
	})
}

func discoveryOf(o Options, a *api, h *heard) *Discovery {
	if o.Pod == (Pod{}) {
		o.Pod = Pod{Name: "app-1", UID: "uid-1"}
	}
	o.Find = func() (Account, error) { return Account{Namespace: "shop"}, nil }
	o.Addresses = func() ([]netip.Addr, error) { return []netip.Addr{podAddr}, nil }
	o.SetEnvoys = func(addresses []netip.Addr) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.envoys = slices.Clone(addresses)
	}
	o.SetPeers = func(target int, peers []takeover.Peer) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.peers[target] = slices.Clone(peers)
	}
	o.Degrade = func(format string, args ...any) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.degraded = append(h.degraded, fmt.Sprintf(format, args...))
	}
	d := New(o)
	d.build = func(Account) (*client, error) {
		return &client{base: "https://api", http: &http.Client{Transport: a}}, nil
	}
	return d
}

// pass lets the made-up clock go on, and everything settle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// sliceOf makes a slice of a Service with one port, named http.
func sliceOf(name, service string, port uint16, endpoints ...endpoint) endpointSlice {
	s := endpointSlice{Endpoints: endpoints, Ports: []slicePort{{Name: "http", Port: port}}}
	s.Metadata.Name = name
	s.Metadata.Labels = map[string]string{serviceLabel: service}
	return s
}

func pod(number int, change ...func(*endpoint)) endpoint {
	e := endpoint{Addresses: []string{fmt.Sprintf("10.0.0.%d", number)}, Zone: "a"}
	e.TargetRef.Kind, e.TargetRef.Name, e.TargetRef.UID = "Pod", fmt.Sprintf("app-%d", number), fmt.Sprintf("uid-%d", number)
	yes, no := true, false
	e.Conditions.Ready, e.Conditions.Serving, e.Conditions.Terminating = &yes, &yes, &no
	for _, f := range change {
		f(&e)
	}
	return e
}

func terminating(e *endpoint) {
	yes, no := true, false
	e.Conditions.Ready, e.Conditions.Terminating = &no, &yes
}

func unready(e *endpoint) {
	no := false
	e.Conditions.Ready, e.Conditions.Serving = &no, &no
}

// unsaid has no conditions: the API takes that for ready.
func unsaid(e *endpoint) { e.Conditions = endpoint{}.Conditions }

func zone(name string) func(*endpoint)     { return func(e *endpoint) { e.Zone = name } }
func hostname(name string) func(*endpoint) { return func(e *endpoint) { e.Hostname = name } }
