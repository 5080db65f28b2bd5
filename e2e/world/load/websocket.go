package load

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/coder/websocket"

	"lameduck/e2e/world"
	"lameduck/e2e/world/app"
)

// webSocket makes one session: the upgrade, a message, its answer, the close.
func (r *run) webSocket(ctx context.Context, s world.Stream, to string, id int) string {
	conn, kind := r.dialWebSocket(ctx, to, id)
	if kind != "" {
		return kind
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Write(ctx, websocket.MessageText, []byte(message(s, id))); err != nil {
		return "reset"
	}
	_, text, err := conn.Read(ctx)
	if kind := answered(string(text), err, id); kind != "" {
		return closeKind(err, kind)
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	return ""
}

// dialWebSocket returns the connection, or the kind of failure.
func (r *run) dialWebSocket(ctx context.Context, to string, id int) (*websocket.Conn, string) {
	header := make(http.Header)
	header.Set(app.ID, Name(id))
	conn, resp, err := websocket.Dial(ctx, "ws://"+to+"/", &websocket.DialOptions{HTTPClient: r.client, HTTPHeader: header})
	switch {
	case err != nil && resp != nil:
		return nil, strconv.Itoa(resp.StatusCode)
	case err != nil:
		return nil, "reset"
	}
	return conn, ""
}

// closeKind is "close 1001" and the like where the other end has closed, else the kind.
func closeKind(err error, kind string) string {
	var closed websocket.CloseError
	if errors.As(err, &closed) {
		return "close " + strconv.Itoa(int(closed.Code))
	}
	return kind
}
