package front

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Engine runs the calls of the spliced tool.
type Engine interface {
	// Call starts one call. It is called from the goroutine that reads the
	// client (from others for large requests), concurrently for different
	// requests, and must not block. It answers r.Reply exactly once, from any
	// goroutine and possibly before Call returns.
	Call(r Request)
	// Cancel says that the client gave the call up: its answer goes nowhere.
	// It must not block. The call may have been answered in the meantime.
	Cancel(session, call uint64, reason string)
}

// Request is one call of the spliced tool, checked as far as its form goes.
type Request struct {
	Session uint64
	Call    uint64 // unique in this process
	Server  string // never ""
	Tool    string // never ""
	// Args is one JSON object, or nil where the client gave none. It aliases
	// the client's line, which nobody changes.
	Args json.RawMessage
	// Params is the whole params member of the client's request.
	Params json.RawMessage
	// Timeout is what the client asked for; 0 where it asked for nothing.
	Timeout time.Duration
	// Context is the trace context that the request came with; it aliases
	// the client's line as well.
	Context messages.TraceContext
	// Era is the protocol generation of this request.
	Era messages.Era
	// Transport is how the client sent it: [messages.TransportStdio] or
	// [messages.TransportHTTP].
	Transport messages.Transport
	// Cancelled is true once the client gave the call up.
	Cancelled *atomic.Bool
	// Reply takes the answer.
	Reply messages.ReplyPort
	// Progress takes the child's progress before the answer; nil where the
	// client did not ask for it.
	Progress messages.ProgressPort
	// Burst is that of [messages.Call].
	Burst *messages.Burst
	// Client, Can, Log, Shared, TakesInput and Input are those of [messages.Call].
	Client     messages.ClientPort
	Can        messages.ClientCan
	Log        messages.LogLevel
	Shared     bool
	TakesInput bool
	Input      *messages.Input
}

var lastCall, lastSession atomic.Uint64

// NextCall returns a call number that no other call in this process has. Any
// front may take one.
func NextCall() uint64 { return lastCall.Add(1) }

// NextSession returns a session number that no other session in this process
// has; never 0, which is nobody.
func NextSession() uint64 { return lastSession.Add(1) }
