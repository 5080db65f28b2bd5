package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	// The pauses before a call that failed is made again: each twice the last, and up to half as long again by chance, so
	// that many pods do not ask together.
	firstPause = time.Second
	lastPause  = 8 * time.Second
	// maxEndpoints bounds what is remembered, at about 500 bytes each.
	maxEndpoints = 10_000
)

var errTooMany = errors.New("there are more than 10000 endpoints")

// feed follows the EndpointSlices of a query.
type feed struct {
	client *client
	query  Query
	// changed is called with all slices, by name, after each change. It must not keep the map.
	changed func(map[string]*endpointSlice)
	// problem hears, once each, why the slices cannot be had, or why their changes cannot.
	problem func(err error, known bool)

	slices    map[string]*endpointSlice
	endpoints int
	version   string // empty: to be listed
	expired   bool   // the API server's own memory was too old: ask etcd
	said      [2]bool
}

// run follows until ctx ends, or nothing more can be had.
func (f *feed) run(ctx context.Context) {
	pause := firstPause
	for failures := 0; ctx.Err() == nil; {
		lived, err := f.step(ctx)
		if lived {
			pause, failures = firstPause, 0
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failures++
			// A watch that is cut may well be taken up again.
			if f.version == "" && !f.expired || failures > 1 || hopeless(err) || errors.Is(err, errTooMany) {
				f.say(err)
			}
			if hopeless(err) || errors.Is(err, errTooMany) {
				return
			}
		}
		select {
		case <-time.After(pause + rand.N(pause/2)):
		case <-ctx.Done():
		}
		pause = min(2*pause, lastPause)
	}
}

func (f *feed) say(err error) {
	known := f.slices != nil
	if i := boolInt(known); !f.said[i] {
		f.said[i] = true
		f.problem(err, known)
	}
}

// step lists, where that is due, and watches until that ends; lived: the watch lasted, so that the next is not one more try.
func (f *feed) step(ctx context.Context) (lived bool, err error) {
	if f.version == "" {
		if err := f.list(ctx); err != nil {
			return false, err
		}
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	start := time.Now()
	err = f.client.watch(ctx, f.query, f.version, f.take)
	if isStatus(err, http.StatusGone) {
		f.version, f.expired = "", true
	}
	return time.Since(start) > lastPause, err
}

func (f *feed) list(ctx context.Context) error {
	from := "0"
	if f.expired {
		from = ""
	}
	listed := feed{slices: map[string]*endpointSlice{}}
	version, err := f.client.list(ctx, f.query, from, func(s *endpointSlice) error { return listed.put(s) })
	if err != nil {
		return err
	}
	f.slices, f.endpoints, f.version, f.expired = listed.slices, listed.endpoints, version, false
	f.changed(f.slices)
	return nil
}

// take enters an event of the watch.
func (f *feed) take(kind string, s *endpointSlice) (err error) {
	switch kind {
	case eventDeleted:
		f.drop(s.Metadata.Name)
	case eventAdded, eventModified:
		err = f.put(s)
	}
	if err == nil && s.Metadata.ResourceVersion != "" {
		f.version = s.Metadata.ResourceVersion
	}
	if err == nil && kind != eventBookmark {
		f.changed(f.slices)
	}
	return err
}

func (f *feed) put(s *endpointSlice) error {
	f.drop(s.Metadata.Name)
	if f.endpoints+len(s.Endpoints) > maxEndpoints {
		return errTooMany
	}
	f.endpoints += len(s.Endpoints)
	f.slices[s.Metadata.Name] = s
	return nil
}

func (f *feed) drop(name string) {
	if old := f.slices[name]; old != nil {
		f.endpoints -= len(old.Endpoints)
		delete(f.slices, name)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
