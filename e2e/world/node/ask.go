package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"lameduck/e2e/world"
)

// get asks a pod and keeps the answer.
func (n *node) get(g world.Get) {
	p := n.pods[g.Pod]
	host := n.podIP(p).String()
	if g.Host != "" {
		host = g.Host
	}
	client := n.kubelet.hooks
	switch g.From {
	case world.FromClient:
		client = clientIn(n.clientPlace)
	case world.FromApp:
		client = clientIn(p.ns)
	}
	timeout := g.Timeout
	if timeout == 0 {
		timeout = 5 * time.Second
	}
	at := time.Now()
	url := "http://" + net.JoinHostPort(host, strconv.Itoa(int(g.Port))) + g.Path
	status, body := ask(client, g.Method, url, timeout)
	answer := world.Answer{Get: g, Took: time.Since(at), Status: status, Body: body}
	n.record(func(start time.Time, r *world.Result) {
		answer.At = at.Sub(start)
		r.Answers = append(r.Answers, answer)
	})
}

// clientIn is an HTTP client whose connections begin in a namespace.
func clientIn(ns *namespace) *http.Client {
	dial := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = ns.do(func() (err error) {
			// An address, no name: the socket is made on this thread.
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
}

// ask returns the status and body of the answer to a request; status 0 with the error as body if there is none.
func ask(client *http.Client, method, url string, timeout time.Duration) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, fmt.Sprintf("read answer: %v", err)
	}
	return resp.StatusCode, string(body)
}
