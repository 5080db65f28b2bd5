package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Query names EndpointSlices: those of a namespace that a label selector matches; all, where it is empty.
type Query struct{ Namespace, Selector string }

func (q Query) path() string {
	return "/apis/discovery.k8s.io/v1/namespaces/" + url.PathEscape(q.Namespace) + "/endpointslices"
}

func (q Query) values(version string) url.Values {
	v := url.Values{}
	if q.Selector != "" {
		v.Set("labelSelector", q.Selector)
	}
	if version != "" {
		v.Set("resourceVersion", version)
	}
	return v
}

// list hands over each slice as it comes, and returns the version to watch from. version "0" takes what the API server has
// in memory, "" asks etcd.
func (c *client) list(ctx context.Context, q Query, version string, each func(*endpointSlice) error) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, errSlow)
	defer cancel()
	body, err := c.call(ctx, http.MethodGet, q.path(), q.values(version), nil)
	if err != nil {
		return "", err
	}
	defer body.Close()
	version, err = readList(body, each)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return version, err
}

var errNoList = errors.New("the answer is no list of EndpointSlices")

func readList(body io.Reader, each func(*endpointSlice) error) (version string, err error) {
	m := &meter{reader: body}
	m.reset()
	d := json.NewDecoder(m)
	if err := open(d, '{'); err != nil {
		return "", err
	}
	found := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", err
		}
		switch key {
		case "metadata":
			var metadata struct {
				ResourceVersion string `json:"resourceVersion"`
			}
			err = d.Decode(&metadata)
			version = metadata.ResourceVersion
		case "items":
			found = true
			err = readItems(d, m, each)
		default:
			var skipped json.RawMessage
			err = d.Decode(&skipped)
		}
		if err != nil {
			return "", err
		}
		m.reset()
	}
	if _, err := d.Token(); err != nil {
		return "", err
	}
	if !found || version == "" {
		return "", errNoList
	}
	return version, nil
}

func readItems(d *json.Decoder, m *meter, each func(*endpointSlice) error) error {
	start, err := d.Token()
	if err != nil || start == nil { // null: none
		return err
	}
	if start != json.Delim('[') {
		return errNoList
	}
	for d.More() {
		m.reset()
		s := new(endpointSlice)
		if err := d.Decode(s); err != nil {
			return err
		}
		if err := each(s); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func open(d *json.Decoder, delim json.Delim) error {
	switch token, err := d.Token(); {
	case err != nil:
		return fmt.Errorf("%w: %w", errNoList, err)
	case token != delim:
		return errNoList
	}
	return nil
}
