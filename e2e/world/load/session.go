package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"lameduck/e2e/world"
	"lameduck/e2e/world/talk"
)

// keep opens all sessions, each at its time, and returns when the last has ended.
func (r *run) keep(sessions []world.Session) {
	for _, s := range sessions {
		for i := range s.Count {
			r.requests.Go(func() { r.session(s, r.envoys[i%len(r.envoys)]) })
		}
	}
}

// session keeps one open until it ends, or its time is over.
func (r *run) session(s world.Session, to string) {
	<-time.After(time.Until(r.start.Add(s.From)))
	// No deadline, which gRPC would tell the server: that would end it, too, and perhaps sooner.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(time.Until(r.start.Add(s.Until)), cancel).Stop()
	end := world.SessionEnd{Session: s.Name, From: time.Since(r.start)}
	c, err := r.open(ctx, s, to)
	if err == nil {
		err = follow(ctx, s, c, &end)
	}
	end.At = time.Since(r.start)
	end.How, end.Detail = howEnded(s.Call, err, end.Messages), fmt.Sprint(err)
	if ctx.Err() != nil {
		end.How, end.Detail = "kept", ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions = append(r.sessions, end)
}

// conversation is an open session. hear returns the name of who spoke.
type conversation struct {
	ask  func() error
	hear func() (string, error)
}

// follow asks, if the client is to, and hears until the session ends.
func follow(ctx context.Context, s world.Session, c conversation, end *world.SessionEnd) error {
	if s.Asks {
		order := talk.Order{Every: s.Every}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { _ = order.CarryOut(ctx, c.ask) }() // what fails here, fails there too
	}
	for {
		name, err := c.hear()
		if err != nil {
			return err
		}
		end.Pod = name
		end.Messages++
	}
}

// open begins a session. Where the application is to send, it is told so.
func (r *run) open(ctx context.Context, s world.Session, to string) (conversation, error) {
	order := talk.Order{Count: s.Messages, Every: s.Every}.String()
	first := Name(0)
	if !s.Asks {
		first += " watch " + order
	}
	switch s.Call {
	case world.CallTCP:
		return r.openLine(ctx, s, to, first)
	case world.CallWebSocket:
		return r.openWebSocket(ctx, s, to, first)
	}
	conn, err := r.grpcTo(to)
	if err != nil {
		return conversation{}, err
	}
	var stream grpc.ClientStream
	if s.Asks {
		stream, err = conn.NewStream(named(ctx, 0), &talk.EchoStream, talk.EchoMethod)
	} else {
		stream, err = watch(named(ctx, 0), conn, order)
	}
	return conversation{
		ask: func() error { return stream.SendMsg(talk.Of(first)) },
		hear: func() (string, error) {
			var answer talk.Text
			err := stream.RecvMsg(&answer)
			return answer.GetValue(), err
		},
	}, err
}

func (r *run) openLine(ctx context.Context, s world.Session, to, first string) (conversation, error) {
	l, err := dialLine(ctx, to)
	if err == nil && r.greets {
		_, err = l.read()
	}
	if err == nil && !s.Asks {
		err = l.write(first)
	}
	return conversation{
		ask:  func() error { return l.write(first) },
		hear: func() (string, error) { return speaker(l.read()) },
	}, err
}

func (r *run) openWebSocket(ctx context.Context, s world.Session, to, first string) (conversation, error) {
	conn, kind := r.dialWebSocket(ctx, to, 0)
	if kind != "" {
		return conversation{}, errors.New(kind)
	}
	write := func() error { return conn.Write(ctx, websocket.MessageText, []byte(first)) }
	var err error
	if !s.Asks {
		err = write()
	}
	return conversation{ask: write, hear: func() (string, error) {
		_, text, err := conn.Read(ctx)
		return speaker(string(text), err)
	}}, err
}

func speaker(text string, err error) (string, error) {
	name, _, _ := strings.Cut(text, " ")
	return name, err
}

// howEnded names the end of a session.
func howEnded(call world.Call, err error, messages int) string {
	if call == world.CallGRPCStream {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return fmt.Sprintf("status %d", status.Code(err))
	}
	how := closeKind(err, brokenBy(err))
	if messages == 0 && (how == "EOF" || how == "reset") {
		return "refused"
	}
	return how
}
