package app

import (
	"context"
	"net/http"

	"github.com/coder/websocket"
)

// converse takes a WebSocket session.
func (h *handler) converse(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	one := h.sessions.add(func() { _ = conn.Close(websocket.StatusGoingAway, "the application ends") })
	defer one.close()
	converse(context.Background(), h.name, h.book, one, frames{conn})
}

// frames are texts in WebSocket messages.
type frames struct{ conn *websocket.Conn }

func (f frames) read() (string, error) {
	_, text, err := f.conn.Read(context.Background())
	return string(text), err
}

func (f frames) write(text string) error {
	return f.conn.Write(context.Background(), websocket.MessageText, []byte(text))
}
