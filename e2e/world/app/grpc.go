package app

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"lameduck/e2e/world/talk"
)

// newGRPC is the gRPC server: the health service, and talk.Server.
func newGRPC(name string, b book) *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(func(
		ctx context.Context, in any, info *grpc.UnaryServerInfo, answer grpc.UnaryHandler,
	) (any, error) {
		if info.FullMethod == grpc_health_v1.Health_Check_FullMethodName {
			b.check("grpc")
		}
		return answer(ctx, in)
	}))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	talk.Register(server, talker{name, b})
	return server
}

// talker is what the application says over gRPC. Its answer to a message is its own name, after the delay that follows the
// message's id.
type talker struct {
	name string
	book book
}

func (t talker) Call(ctx context.Context, in *talk.Text) (*talk.Text, error) {
	t.begin(ctx)
	_, rest, _ := strings.Cut(in.GetValue(), " ")
	if delay, err := time.ParseDuration(rest); err == nil {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
	return talk.Of(t.name), nil
}

// Watch sends its name as the talk.Order in the message asks.
func (t talker) Watch(in *talk.Text, stream grpc.ServerStreamingServer[talk.Text]) error {
	t.begin(stream.Context())
	order, err := talk.ParseOrder(in.GetValue())
	if err != nil {
		return err
	}
	return order.CarryOut(stream.Context(), func() error { return stream.Send(talk.Of(t.name)) })
}

func (t talker) Echo(stream grpc.BidiStreamingServer[talk.Text, talk.Text]) error {
	t.begin(stream.Context())
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(talk.Of(t.name)); err != nil {
			return err
		}
	}
}

// begin keeps a call's id.
func (t talker) begin(ctx context.Context) {
	if ids := metadata.ValueFromIncomingContext(ctx, strings.ToLower(ID)); len(ids) > 0 {
		t.book.request(ids[0])
	}
}
