package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// The kinds of a watch's events.
const (
	eventAdded    = "ADDED"
	eventModified = "MODIFIED"
	eventDeleted  = "DELETED"
	eventBookmark = "BOOKMARK"
	eventError    = "ERROR"
)

// watchFor is how long a watch is asked for: longer than any grace period but the oddest.
const watchFor = time.Hour

// watch hands over each change after version until the stream ends, which alone is no error.
func (c *client) watch(ctx context.Context, q Query, version string, each func(kind string, s *endpointSlice) error) error {
	values := q.values(version)
	values.Set("watch", "true")
	values.Set("allowWatchBookmarks", "true") // they keep the version young where nothing changes
	values.Set("timeoutSeconds", strconv.Itoa(int(watchFor.Seconds())))
	body, err := c.call(ctx, http.MethodGet, q.path(), values, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	m := &meter{reader: body}
	d := json.NewDecoder(m)
	for {
		m.reset()
		var event struct {
			Type   string `json:"type"`
			Object struct {
				endpointSlice
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"object"`
		}
		switch err := d.Decode(&event); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case event.Type == eventError:
			return &statusError{event.Object.Code, event.Object.Message}
		case !slices.Contains([]string{eventAdded, eventModified, eventDeleted, eventBookmark}, event.Type):
			return fmt.Errorf("the answer is no watch event: %q", event.Type)
		}
		s := event.Object.endpointSlice
		if err := each(event.Type, &s); err != nil {
			return err
		}
	}
}
