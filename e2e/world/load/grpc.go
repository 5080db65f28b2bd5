package load

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"lameduck/e2e/world"
	"lameduck/e2e/world/app"
	"lameduck/e2e/world/talk"
)

// shortOrder is what a CallGRPCStream asks for.
const shortOrder = "3 20ms"

// unary makes one call with an answer, which takes the stream's delay.
func (r *run) unary(ctx context.Context, s world.Stream, to string, id int) (kind, detail string) {
	conn, err := r.grpcTo(to)
	if err != nil {
		return err.Error(), ""
	}
	ask := Name(id)
	if s.Delay > 0 {
		ask += " " + s.Delay.String()
	}
	var answer talk.Text
	err = conn.Invoke(named(ctx, id), talk.CallMethod, talk.Of(ask), &answer)
	return spoken(answer.GetValue(), err), status.Convert(err).Message()
}

// shortStream makes one call with several answers.
func (r *run) shortStream(ctx context.Context, to string, id int) string {
	conn, err := r.grpcTo(to)
	if err != nil {
		return err.Error()
	}
	stream, err := watch(named(ctx, id), conn, shortOrder)
	messages := 0
	for err == nil {
		var answer talk.Text
		if err = stream.RecvMsg(&answer); err != nil {
			break
		}
		messages++
		if kind := spoken(answer.GetValue(), nil); kind != "" {
			return kind
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		return spoken("", err)
	case messages != 3:
		return mixedUp
	}
	return ""
}

// watch begins a stream that the application sends as the order says.
func watch(ctx context.Context, conn *grpc.ClientConn, order string) (grpc.ClientStream, error) {
	stream, err := conn.NewStream(ctx, &talk.WatchStream, talk.WatchMethod)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(talk.Of(order)); err != nil && !errors.Is(err, io.EOF) { // EOF: RecvMsg knows more
		return nil, err
	}
	return stream, stream.CloseSend()
}

// spoken tells what is wrong with an answer: "status 14" and the like.
func spoken(name string, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("status %d", status.Code(err))
	case name == app.Stranger:
		return app.Stranger
	}
	return ""
}

// named gives a call its id.
func named(ctx context.Context, id int) context.Context {
	return metadata.AppendToOutgoingContext(ctx, app.ID, Name(id))
}

// grpcTo is the connection to an Envoy; there is one each, as a gRPC client has it.
func (r *run) grpcTo(to string) (*grpc.ClientConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if conn := r.channels[to]; conn != nil {
		return conn, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+to, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		r.channels[to] = conn
	}
	return conn, err
}
