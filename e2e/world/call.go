package world

import "time"

// Call is what one request of a Stream is.
type Call string

// The calls. Each carries an id that the application keeps: Result.Replayed counts those that reached two of them.
const (
	CallGet        Call = ""
	CallPost       Call = "post"        // its body is the id, and so is the answer's
	CallGRPC       Call = "grpc"        // unary
	CallGRPCStream Call = "grpc stream" // a message, answered by three, 20 ms apart
	CallWebSocket  Call = "websocket"   // a session: the upgrade, a message, its answer, the close
	CallTCP        Call = "tcp"         // a session: a greeting if App.Greets, a message, its answer, the close
)

// Session is a stream that is kept: open From the load's start on, until it ends or the client ends it.
type Session struct {
	Name string
	// Call is CallGRPCStream, CallWebSocket or CallTCP.
	Call Call
	// Count is how many of them are opened; 0 stands for 1.
	Count int
	// Every is how often there is a message; 0: after the first message, which tells of the application, all is silent.
	Every time.Duration
	// Asks lets the client send each message and the application answer it; else the application sends.
	Asks bool
	// Messages is how many the application sends before it ends the stream; 0: no end. CallGRPCStream only.
	Messages int
	// Until 0 stands for the run's Duration.
	From, Until time.Duration
}

// SessionEnd is how one of them ended.
type SessionEnd struct {
	Session string
	// Pod is the name of the application at the other end; empty if it never said it.
	Pod string
	// From is when it was opened, At when it ended.
	From, At time.Duration
	// Messages is how many came from the application.
	Messages int
	// How is "kept" (it lived until the client ended it), "status 14" (a gRPC code; 0 is the stream's own end), "close 1001"
	// (a WebSocket's), "EOF", "reset", or "refused" (it never began); Detail is what the client's library said.
	How, Detail string
}

func (s Session) withDefaults(duration time.Duration) Session {
	set(&s.Count, 1)
	set(&s.Until, duration)
	return s
}
