package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// faulty answers the calls that begin with verb by what a fault gives, and the others as usual.
func faulty(verb string, fault func(*http.Request) (*http.Response, error)) func(string, *http.Request) (*http.Response, error) {
	return func(call string, request *http.Request) (*http.Response, error) {
		if strings.HasPrefix(call, verb) {
			return fault(request)
		}
		return nil, nil
	}
}

func down(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

// stalled never answers.
func stalled(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

func forbidden(*http.Request) (*http.Response, error) {
	return status(http.StatusForbidden, `endpointslices.discovery.k8s.io is forbidden: User "x" cannot list`), nil
}

// trickle gives a list's beginning, and no more.
func trickle(request *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	context.AfterFunc(request.Context(), func() { writer.CloseWithError(request.Context().Err()) })
	go func() { _, _ = io.WriteString(writer, `{"metadata":{"resourceVersion":"7"},"items":[`) }()
	return &http.Response{StatusCode: http.StatusOK, Body: reader}, nil
}

// C20: whatever the API server does, the drain hears of it at once or when a call's time is over, and nothing else happens.
func TestFailingListIsSaidAndLeavesTheDefaults(t *testing.T) {
	huge := `{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"` + strings.Repeat("x", 2*maxObject) + `"}}]}`
	with := func(code int, body string) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return reply(code, body), nil }
	}
	for _, test := range []struct {
		name  string
		fault func(*http.Request) (*http.Response, error)
		after time.Duration // said by then, and not a second before
		lack  string
		again bool // it is tried again
	}{
		{"down", down, 0, "connection refused", true},
		{"forbidden", forbidden, 0, "answers 403: endpointslices.discovery.k8s.io is forbidden", false},
		{"no such version", with(404, "404 page not found"), 0, "answers 404 Not Found", false},
		{"unauthorized", with(401, `{"message":"Unauthorized"}`), 0, "answers 401: Unauthorized", true},
		{"overloaded", with(429, ""), 0, "answers 429 Too Many Requests", true},
		{"broken", with(500, strings.Repeat("x", 1<<20)), 0, "answers 500 Internal Server Error", true},
		{"silent", stalled, headerTimeout, errSlow.Error(), true},
		{"stuck in the middle", trickle, listTimeout, errSlow.Error(), true},
		{"no JSON", with(200, "<html>"), 0, errNoList.Error(), true},
		{"other JSON", with(200, `{"kind":"Status","metadata":{}}`), 0, errNoList.Error(), true},
		{"an empty answer", with(200, ""), 0, errNoList.Error(), true},
		{"cut", with(200, `{"metadata":{"resourceVersion":"7"},"items":[{}`), 0, "EOF", true},
		{"items of another kind", with(200, `{"metadata":{"resourceVersion":"7"},"items":{"a":1}}`), 0, errNoList.Error(), true},
		{"one object that never ends", with(200, huge), 0, errTooLarge.Error(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := named()
			o.Envoys = gateways().Envoys
			discover(t, o, func(t *testing.T, a *api, h *heard) {
				a.put(eventAdded, sliceOf("app-x", "app", 80, pod(1), pod(2)))
				a.put(eventAdded, envoySlice("x", pod(8)))
				a.set(faulty("LIST", test.fault))
				pass(max(0, test.after-time.Second) + time.Millisecond)
				if early := h.lacks(); test.after > 0 && len(early) > 0 {
					t.Errorf("said too early: %q", early)
				}
				pass(time.Second)
				wantBoth(t, h, test.lack)
				if h.envoys != nil || len(h.peers) > 0 {
					t.Errorf("sources %v, peers %v", h.envoys, h.peers)
				}
				a.set(nil)
				pass(time.Minute)
				if again := len(h.lines(0)) == 1 && len(h.addresses()) == 1; again != test.again {
					t.Errorf("tried again: %v", again)
				}
				if got := len(h.lacks()); got != 2 {
					t.Errorf("said %d times: %q", got, h.lacks())
				}
			})
		})
	}
}

// wantBoth wants one lack of sources and one of peers, each with its reason and what follows.
func wantBoth(t *testing.T, h *heard, reason string) {
	t.Helper()
	all := strings.Join(h.lacks(), "\n")
	for _, part := range []string{"--envoy-slices gateways/app=envoy", "every remote address counts", "--relay-to service/app", "no peers"} {
		if !strings.Contains(all, part) || strings.Count(all, reason) != 2 {
			t.Errorf("want %q and twice %q in:\n%s", part, reason, all)
		}
	}
}

func TestRetriesComeSlowlyAndNeverEnd(t *testing.T) {
	discover(t, named(), func(t *testing.T, a *api, _ *heard) {
		a.set(faulty("", down))
		pass(10 * time.Minute)
		if got := len(a.called()); got < 50 || got > 80 {
			t.Errorf("%d calls in 10 minutes", got)
		}
	})
}

func TestCutWatchIsTakenUpWhereItEnded(t *testing.T) {
	for name, err := range map[string]error{"closed": io.EOF, "reset": syscall.ECONNRESET, "in the middle of an event": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			discover(t, named(), func(t *testing.T, a *api, h *heard) {
				a.put(eventAdded, sliceOf("app-x", "app", 80, pod(1), pod(2)))
				pass(time.Second)
				a.put(eventModified, sliceOf("app-x", "app", 80, pod(1), pod(3)))
				a.tell(`{"type":"BOOKMARK","object":{"kind":"EndpointSlice","metadata":{"resourceVersion":"150"}}}` + "\n")
				pass(time.Second)
				if errors.Is(err, io.ErrUnexpectedEOF) {
					a.tell(`{"type":"MODIF`)
				}
				a.cut(err)
				pass(2 * time.Second)
				same(t, "peers meanwhile", h.lines(0), "80 10.0.0.3:80 near")
				a.put(eventModified, sliceOf("app-x", "app", 80, pod(1), pod(4)))
				pass(0)
				same(t, "peers after", h.lines(0), "80 10.0.0.4:80 near")
				same(t, "calls", a.called(), "LIST "+selected+"@0", "WATCH "+selected+"@101", "WATCH "+selected+"@150")
				wantLack(t, h, "")
			})
		})
	}
}

func TestTooOldAVersionIsListedAnew(t *testing.T) {
	gone := func(*http.Request) (*http.Response, error) {
		return status(http.StatusGone, "too old resource version"), nil
	}
	for name, expire := range map[string]func(*api){
		"as an answer": func(a *api) { a.set(faulty("WATCH", gone)); a.cut(io.EOF) },
		"as an event": func(a *api) {
			a.tell(`{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}` + "\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			discover(t, named(), func(t *testing.T, a *api, h *heard) {
				a.put(eventAdded, sliceOf("app-x", "app", 80, pod(1), pod(2)))
				pass(time.Second)
				expire(a)
				a.mu.Lock()
				a.version = 900
				a.mu.Unlock()
				a.put(eventModified, sliceOf("app-x", "app", 80, pod(1), pod(3)))
				pass(2 * time.Second)
				a.set(nil)
				pass(10 * time.Second)
				same(t, "peers", h.lines(0), "80 10.0.0.3:80 near")
				calls := a.called()
				same(t, "the last calls", calls[len(calls)-2:], "LIST "+selected+"@", "WATCH "+selected+"@901")
				wantLack(t, h, "")
			})
		})
	}
}

func TestWatchThatCannotBeHadLeavesWhatTheListSaid(t *testing.T) {
	garbage := func(*http.Request) (*http.Response, error) {
		return reply(http.StatusOK, `{"type":"PATCHED","object":{}}`), nil
	}
	for _, test := range []struct {
		name  string
		fault func(*http.Request) (*http.Response, error)
		lack  string
	}{
		{"forbidden", forbidden, "403"}, {"down", down, "refused"}, {"silent", stalled, errSlow.Error()}, {"garbage", garbage, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			discover(t, named(), func(t *testing.T, a *api, h *heard) {
				a.put(eventAdded, sliceOf("app-x", "app", 80, pod(1), pod(2)))
				a.set(faulty("WATCH", test.fault))
				pass(time.Minute)
				same(t, "peers", h.lines(0), "80 10.0.0.2:80 near")
				if test.lack != "" {
					wantLack(t, h, "changes of the endpoints of --relay-to service/app are no longer heard")
					wantLack(t, h, test.lack)
				}
				if got := len(a.called()); got > 20 {
					t.Errorf("%d calls in a minute", got)
				}
			})
		})
	}
}

func TestTooManyEndpointsAreSaidAndForgotten(t *testing.T) {
	discover(t, named(), func(t *testing.T, a *api, h *heard) {
		for i := range maxEndpoints/100 + 1 {
			var some []endpoint
			for j := range 100 {
				some = append(some, pod(i*100+j))
			}
			a.put(eventAdded, sliceOf(fmt.Sprint("app-", i), "app", 80, some...))
		}
		pass(time.Hour)
		wantLack(t, h, errTooMany.Error())
		if len(h.peers) > 0 || len(a.called()) != 1 {
			t.Errorf("peers %v, calls %q", h.peers, a.called())
		}
	})
	discover(t, named(), func(t *testing.T, a *api, h *heard) {
		a.put(eventAdded, sliceOf("app-x", "app", 80, pod(1), pod(2)))
		pass(time.Second)
		a.put(eventAdded, sliceOf("app-y", "app", 80, make([]endpoint, maxEndpoints)...))
		pass(time.Hour)
		wantLack(t, h, errTooMany.Error())
		same(t, "peers", h.lines(0), "80 10.0.0.2:80 near")
	})
}

func TestWithoutAnAccountTheDefaultsStay(t *testing.T) {
	a, h := newAPI(), new(heard)
	o := auto()
	o.Envoys = gateways().Envoys
	d := discoveryOf(o, a, h)
	d.options.Find = func() (Account, error) { return Account{}, errors.New("no token") }
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(h.lacks(), "\n"); strings.Count(got, "no token") != 2 || len(a.called()) != 0 {
		t.Errorf("lacks %s, calls %q", got, a.called())
	}
}
