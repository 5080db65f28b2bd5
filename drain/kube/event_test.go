package kube

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"context"

	"lameduck/drain"
)

func lastWords() drain.LastWords {
	return drain.LastWords{LastWords: "exit", Phase: drain.Done, Reason: drain.ReasonQuiet, Why: "inbound traffic from Envoy has stopped",
		Trigger: "drain", Elapsed: 10.2, Held: 10, Lag: 3.1, Refused: 2, Relayed: 7, Degraded: []string{"no sleep"}}
}

func TestEventBearsTheLastWordsOfThisPod(t *testing.T) {
	a := newAPI()
	d := discoveryOf(Options{}, a, new(heard))
	if err := d.Tell(t.Context(), lastWords()); err != nil {
		t.Fatal(err)
	}
	same(t, "calls", a.called(), "POST /api/v1/namespaces/shop/events")
	var got struct {
		APIVersion, Kind, Type, Reason, Message string
		Metadata                                struct{ Name, Namespace string }
		InvolvedObject                          struct{ Kind, Namespace, Name, UID string }
		FirstTimestamp, LastTimestamp           time.Time
		Count                                   int
	}
	if err := json.Unmarshal([]byte(a.bodies[0]), &got); err != nil {
		t.Fatal(err)
	}
	if o := got.InvolvedObject; o.Kind != "Pod" || o.Namespace != "shop" || o.Name != "app-1" || o.UID != "uid-1" || got.Metadata.Namespace != "shop" {
		t.Errorf("it is about %+v, in %q", o, got.Metadata.Namespace)
	}
	if !strings.HasPrefix(got.Metadata.Name, "app-1.") || got.Type != "Normal" || got.Reason != "Drained" || got.Count != 1 || time.Since(got.LastTimestamp) > time.Minute {
		t.Errorf("got %+v", got)
	}
	want := "quiet: inbound traffic from Envoy has stopped. Drained for 10.2 s from drain on; held 10.0 s, last activity after 3.1 s; 2 refused, 7 relayed, 0 not. Without: no sleep."
	if got.Message != want {
		t.Errorf("got  %q\nwant %q", got.Message, want)
	}
}

func TestEventWarnsWhereTheTimeRanOut(t *testing.T) {
	words := lastWords()
	for reason, want := range map[string]string{drain.ReasonDeadline: "DrainDeadline", drain.ReasonBlind: "DrainBlind"} {
		words.Reason = reason
		words.Degraded = []string{strings.Repeat("ü", 2*maxMessage)}
		e := eventOf(Pod{Name: "app-1"}, "shop", words, time.Now())
		if e.Type != "Warning" || e.Reason != want || len(e.Message) > maxMessage {
			t.Errorf("%s: %s %s, %d bytes", reason, e.Type, e.Reason, len(e.Message))
		}
	}
}

func TestWithoutAPodsNameThereIsNoEventAndNoError(t *testing.T) {
	for _, pod := range []Pod{{}, {Name: "app-1"}, {UID: "uid-1"}} {
		a := newAPI()
		d := discoveryOf(Options{}, a, new(heard))
		d.options.Pod = pod
		if err := d.Tell(t.Context(), lastWords()); err != nil || len(a.called()) > 0 {
			t.Errorf("%+v: %v, calls %q", pod, err, a.called())
		}
	}
}

func TestEventThatCannotBeLeftTakesNoLongerThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		d := discoveryOf(Options{}, a, new(heard))
		a.set(faulty("POST", stalled))
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Tell(ctx, lastWords()); err == nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		a.set(faulty("POST", func(*http.Request) (*http.Response, error) { return status(403, "events is forbidden"), nil }))
		if err := d.Tell(t.Context(), lastWords()); err == nil || !strings.Contains(err.Error(), "events is forbidden") {
			t.Errorf("forbidden: %v", err)
		}
	})
}
