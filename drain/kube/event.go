package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lameduck/drain"
)

// maxMessage is what an Event may say (events.k8s.io/v1, field note).
const maxMessage = 1024

// Tell leaves the last words as an Event on this pod. It does nothing where the pod's name or UID is not known.
func (d *Discovery) Tell(ctx context.Context, words drain.LastWords) error {
	if d.options.Pod.Name == "" || d.options.Pod.UID == "" {
		return nil
	}
	c, account, err := d.connect()
	if err != nil {
		return err
	}
	body, err := json.Marshal(eventOf(d.options.Pod, account.Namespace, words, time.Now()))
	if err != nil {
		return fmt.Errorf("kube: event: %w", err)
	}
	answer, err := c.call(ctx, http.MethodPost, "/api/v1/namespaces/"+url.PathEscape(account.Namespace)+"/events", nil, body)
	switch {
	case err == nil:
		return answer.Close()
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = errSlow
	}
	return fmt.Errorf("kube: event: %w", err)
}

// event is what is needed of a core/v1 Event.
type event struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	InvolvedObject struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Namespace  string `json:"namespace"`
		Name       string `json:"name"`
		UID        string `json:"uid"`
	} `json:"involvedObject"`
	Source struct {
		Component string `json:"component"`
	} `json:"source"`
	Type           string    `json:"type"`
	Reason         string    `json:"reason"`
	Message        string    `json:"message"`
	FirstTimestamp time.Time `json:"firstTimestamp"`
	LastTimestamp  time.Time `json:"lastTimestamp"`
	Count          int       `json:"count"`
}

func eventOf(pod Pod, namespace string, words drain.LastWords, now time.Time) event {
	now = now.UTC().Truncate(time.Second) // a metav1.Time has no fractions
	e := event{APIVersion: "v1", Kind: "Event", Type: "Normal", Reason: "Drained", FirstTimestamp: now, LastTimestamp: now, Count: 1}
	// The name as client-go's recorder makes it: the object's, and a number that no other event of it has.
	e.Metadata.Name = pod.Name + "." + strconv.FormatInt(time.Now().UnixNano(), 16)
	e.Metadata.Namespace = namespace
	e.Source.Component = "lameduck"
	o := &e.InvolvedObject
	o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID = "v1", "Pod", namespace, pod.Name, pod.UID
	switch words.Reason {
	case drain.ReasonDeadline:
		e.Type, e.Reason = "Warning", "DrainDeadline"
	case drain.ReasonBlind:
		e.Type, e.Reason = "Warning", "DrainBlind"
	}
	e.Message = message(words)
	return e
}

// message is the last words for a person.
func message(w drain.LastWords) string {
	text := fmt.Sprintf("%s: %s. Drained for %.1f s from %s on; held %.1f s, last activity after %.1f s; %d refused, %d relayed, %d not.",
		w.Reason, w.Why, w.Elapsed, w.Trigger, w.Held, w.Lag, w.Refused, w.Relayed, w.RelayFailed)
	for _, lack := range w.Degraded {
		text += " Without: " + lack + "."
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage-3], "") + "..."
	}
	return text
}
