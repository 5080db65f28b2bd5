package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
)

const (
	// dialTimeout bounds the connection, headerTimeout what comes until an answer begins, listTimeout a whole LIST.
	dialTimeout   = 3 * time.Second
	headerTimeout = 5 * time.Second
	listTimeout   = 10 * time.Second
	// maxObject bounds one object of an answer: the API server takes none above 3 MB, and etcd by default 1.5 MB.
	maxObject = 4 << 20
	// maxProblem bounds what is read of an answer that is an error.
	maxProblem = 8 << 10
)

// client asks the API server.
type client struct {
	base string
	http *http.Client
}

// connect reads the token and the certificate; it opens no connection yet.
func connect(a Account) (*client, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	roundTripper, err := transport.New(&transport.Config{
		UserAgent:       "lameduck",
		BearerTokenFile: a.TokenFile,
		TLS:             transport.TLSConfig{CAFile: a.CAFile},
		DialHolder:      &transport.DialHolder{Dial: dialer.DialContext},
		Proxy:           http.ProxyFromEnvironment, // named, it keeps the transport out of client-go's cache, which nothing ever leaves
	})
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	return &client{base: "https://" + a.Server, http: &http.Client{Transport: roundTripper}}, nil
}

func (c *client) close() { utilnet.CloseIdleConnectionsFor(c.http.Transport) }

// statusError is an answer of the API server that is no success.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string {
	if e.message == "" {
		return fmt.Sprintf("the API server answers %d %s", e.code, http.StatusText(e.code))
	}
	return fmt.Sprintf("the API server answers %d: %s", e.code, e.message)
}

func isStatus(err error, codes ...int) bool {
	var status *statusError
	if errors.As(err, &status) {
		for _, code := range codes {
			if status.code == code {
				return true
			}
		}
	}
	return false
}

// hopeless tells of an answer that will be the same the next time: no permission, or no such API.
func hopeless(err error) bool {
	return isStatus(err, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable)
}

var errSlow = errors.New("the API server does not answer in time")

// call sends a request and returns the body of a success. ctx bounds all of it, headerTimeout what comes before the body.
func (c *client) call(ctx context.Context, method, path string, query url.Values, body []byte) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(headerTimeout, func() { cancel(errSlow) })
	answer, err := c.send(ctx, method, path, query, body)
	if !late.Stop() && err == nil {
		answer.Body.Close()
		err = errSlow
	}
	if err != nil {
		cancel(nil) // changes nothing where the cause is errSlow
		if cause := context.Cause(ctx); errors.Is(cause, errSlow) {
			err = cause
		}
		return nil, err
	}
	return &cancelled{answer.Body, cancel}, nil
}

func (c *client) send(ctx context.Context, method, path string, query url.Values, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.URL.RawQuery = query.Encode()
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		var urlError *url.Error
		if errors.As(err, &urlError) {
			err = urlError.Err // its text names method and URL, which the caller says better
		}
		return nil, err
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	var status struct{ Message string }
	_ = json.NewDecoder(io.LimitReader(answer.Body, maxProblem)).Decode(&status) // else the code has to do
	return nil, &statusError{answer.StatusCode, status.Message}
}

// cancelled is a body whose request ends with it.
type cancelled struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *cancelled) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// meter fails a reader that gives more than maxObject between two resets: no answer may fill the memory.
type meter struct {
	reader io.Reader
	left   int
}

var errTooLarge = errors.New("the API server's answer is too large")

func (m *meter) reset() { m.left = maxObject }

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, errTooLarge
	}
	n, err := m.reader.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}
