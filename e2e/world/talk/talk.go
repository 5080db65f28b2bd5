// Package talk is the gRPC service of the world's applications. Its messages are plain strings, so that nothing has to be
// generated.
package talk

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Text is the message in both directions.
type Text = wrapperspb.StringValue

// Of is a message.
func Of(text string) *Text { return wrapperspb.String(text) }

// The methods, as a client names them.
const (
	CallMethod  = "/world.Talk/Call"
	WatchMethod = "/world.Talk/Watch"
	EchoMethod  = "/world.Talk/Echo"
)

// Server is what an application does.
type Server interface {
	// Call answers one message with another.
	Call(context.Context, *Text) (*Text, error)
	// Watch answers one message with a stream.
	Watch(*Text, grpc.ServerStreamingServer[Text]) error
	// Echo answers each message of a stream.
	Echo(grpc.BidiStreamingServer[Text, Text]) error
}

// WatchStream and EchoStream describe the streams for a client.
var (
	WatchStream = grpc.StreamDesc{StreamName: "Watch", ServerStreams: true}
	EchoStream  = grpc.StreamDesc{StreamName: "Echo", ServerStreams: true, ClientStreams: true}
)

// Register lets a gRPC server serve s.
func Register(to grpc.ServiceRegistrar, s Server) {
	watch, echo := WatchStream, EchoStream
	watch.Handler = func(_ any, stream grpc.ServerStream) error {
		var in Text
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		return s.Watch(&in, &grpc.GenericServerStream[Text, Text]{ServerStream: stream})
	}
	echo.Handler = func(_ any, stream grpc.ServerStream) error {
		return s.Echo(&grpc.GenericServerStream[Text, Text]{ServerStream: stream})
	}
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: "world.Talk",
		HandlerType: (*Server)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Call", Handler: call}},
		Streams:     []grpc.StreamDesc{watch, echo},
	}, s)
}

//nolint:revive // the order is grpc.MethodHandler's
func call(s any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	var in Text
	if err := decode(&in); err != nil {
		return nil, err
	}
	answer := func(ctx context.Context, in any) (any, error) { return s.(Server).Call(ctx, in.(*Text)) }
	if intercept == nil {
		return answer(ctx, &in)
	}
	return intercept(ctx, &in, &grpc.UnaryServerInfo{Server: s, FullMethod: CallMethod}, answer)
}
