package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"lameduck/e2e/world"
	"lameduck/e2e/world/app"
)

// mixedUp is the kind of failure where an answer is not that of the request.
const mixedUp = "mixed up"

// outcome is how a call went: the kind of failure, or "", and the client's port where Envoy's log needs it.
type outcome struct {
	kind, detail string
	port         uint16
}

// exchange makes one call.
func (r *run) exchange(s world.Stream, to string, id int) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	if s.Connect {
		return outcome{kind: connect(ctx, to)}
	}
	var o outcome
	switch s.Call {
	case world.CallTCP:
		o = r.tcp(ctx, s, to, id)
	case world.CallWebSocket:
		o.kind = r.webSocket(ctx, s, to, id)
	case world.CallGRPC:
		o.kind, o.detail = r.unary(ctx, s, to, id)
	case world.CallGRPCStream:
		o.kind = r.shortStream(ctx, to, id)
	default:
		o.kind = r.http(ctx, s, to, id)
	}
	if o.kind != "" && ctx.Err() != nil {
		o.kind = "timeout"
	}
	return o
}

// http makes a GET or a POST.
func (r *run) http(ctx context.Context, s world.Stream, to string, id int) string {
	client := r.client
	if s.Direct && !s.Keep {
		client = r.fresh
	}
	url := "http://" + to + s.Path
	if s.Delay > 0 {
		url += "?delay=" + s.Delay.String()
	}
	method, body := http.MethodGet, ""
	if s.Call == world.CallPost {
		method, body = http.MethodPost, Name(id)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set(app.ID, Name(id))
	resp, err := client.Do(req)
	if err != nil {
		return "reset"
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	switch {
	case err != nil:
		return "reset"
	case resp.StatusCode != http.StatusOK:
		return strconv.Itoa(resp.StatusCode)
	case resp.Header.Get(app.Header) == app.Stranger:
		return app.Stranger
	case body != "" && string(answer) != body:
		return mixedUp
	}
	return ""
}

// answered tells what is wrong with a session's answer to a message, which names the application and the message's id.
func answered(text string, err error, id int) string {
	name, of, _ := strings.Cut(text, " ")
	switch {
	case err != nil:
		return brokenBy(err)
	case name == app.Stranger:
		return app.Stranger
	case of != Name(id):
		return mixedUp
	}
	return ""
}

// brokenBy names the end of a connection: "EOF" or "reset".
func brokenBy(err error) string {
	if errors.Is(err, io.EOF) {
		return "EOF"
	}
	return "reset"
}

// message is what a session is sent.
func message(s world.Stream, id int) string {
	if s.Delay > 0 {
		return fmt.Sprintf("%s %s", Name(id), s.Delay)
	}
	return Name(id)
}
