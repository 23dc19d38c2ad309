package messages

import (
	"encoding/json"
	"math"
	"sync/atomic"
	"time"
)

// Meta travels with every message that belongs to a request.
type Meta struct {
	// Trace is the correlation id of the client's request; 0 for work that no
	// request caused.
	Trace uint64
	// Session is the client connection that the request came from; 0 is the
	// host itself.
	Session uint64
	// Principal is whose session it is, where that is known; 0: it is not.
	Principal uint64
	// Deadline ends the wait for a connection, and the request where no
	// progress gives it new time. Zero: the server's timeouts alone hold.
	Deadline time.Time
}

// Origin is where the request came from: what does not change on its way, so that
// whoever made it may read it at any time. The deadline is its holder's.
func (m *Meta) Origin() Meta { return Meta{Trace: m.Trace, Session: m.Session, Principal: m.Principal} }

// Of is whom the request counts for where something is shared out: a principal, which
// may have many sessions, or the session.
func (m *Meta) Of() uint64 {
	if m.Principal != 0 {
		return m.Principal
	}
	return m.Session
}

// ReplyPort takes the one answer to a request. Answer is called exactly once
// for each call, from any goroutine, and never blocks.
type ReplyPort interface {
	Answer(a *Answer)
}

// FlushPort is a [ReplyPort] that may hold back an answer with More set.
// Flush is called where no further answer to the port came after all; like
// Answer it never blocks.
type FlushPort interface {
	ReplyPort
	Flush()
}

// ProgressPort takes a call's progress notifications, in the order in which
// the child sent them and before the answer. It never blocks.
type ProgressPort interface {
	// Progress gets the params object of notifications/progress as the child
	// sent it, but for secrets that were taken out. Its progressToken is the one
	// that metamcp gave the child.
	Progress(call uint64, params json.RawMessage)
}

// Call asks a server's breaker to run one request at the child.
type Call struct {
	Meta
	ID     uint64 // unique in this host, below 2^47
	Server string
	// Method is "" or "tools/call", or another request method of the child.
	Method string
	// Tool and Args are set for tools/call: Args is one valid JSON object.
	Tool string
	Args json.RawMessage
	// Params is set for every other method: one valid JSON object without _meta,
	// or nil.
	Params json.RawMessage

	// Upkeep says that the host itself asks, so that what it shows of the server is true:
	// nobody uses the server, which idles as long as it did before.
	Upkeep     bool
	Timeout    time.Duration // 0: the server's
	Idempotent bool          // annotated read-only or idempotent: safe to repeat
	Attempt    uint8         // how often it was repeated; 0 for the first
	// Begun is the breaker's: a child that was lost, or failed at it, may have seen the
	// call, which is being repeated. Whoever answers it without a child has to say so.
	Begun bool
	// Told is the connection's: how far the caller was told that the call is.
	Told Told
	// Checked is the engine's: the version of the catalog by which the call was checked. It
	// is checked anew before a child gets it where there is another one by then.
	Checked uint64
	// Needs is the connection's: how many changes of the child's list have to be
	// compared with what was accepted before the call is sent.
	Needs uint64
	// Since is the breaker's: when the call was given to an instance that waits for its
	// place.
	Since time.Time
	// Until is the connection's: when the call, which waits at a child that is
	// ready, has waited for long enough. nil: it does not wait there.
	Until *time.Time
	// Probe is the breaker's: it is half-open and waits for what becomes of the call. The
	// connection that has the call clears it when it tells the breaker of that.
	Probe     bool
	Cancelled *atomic.Bool // set once the caller has given up; nothing is sent or repeated afterwards
	// Taker is the engine's: it holds who got the call, since there may be another
	// server of that name when the caller gives up. All copies of a call have it
	// together; the engine makes it where there is none yet.
	Taker    *atomic.Value
	Reply    ReplyPort
	Progress ProgressPort // nil: nobody listens
	// Client reaches who can be asked while the call lasts; nil: nobody can. Can
	// is what it can be asked for, and Log what it wants of the child's log.
	Client ClientPort
	Can    ClientCan
	Log    LogLevel
	// Shared says that the session is one of several clients, so that nothing is
	// known of a client but what its request says: each counts for itself.
	Shared bool
	// TakesInput says that the caller takes a result that asks for input as the
	// answer, and calls again with it; a child that speaks the older protocol
	// still asks through Client.
	TakesInput bool
	// Input is that of such a further call; nil: this is none.
	Input *Input
	// Sending is told when the call is written to a child; nil: nobody is.
	Sending SendPort
	// Burst is what the call came with; nil: it is of none.
	Burst *Burst
	// Held takes the call back before a child gets it; nil: nobody wants to.
	Held HeldPort
}

// Told is the highest progress that somebody was told of; the zero value: none. Under one
// token each value must be above the one before.
type Told struct {
	some bool
	most float64
}

// Add takes notice of a value that is told.
func (t *Told) Add(value float64) {
	if !t.some || value > t.most {
		t.some, t.most = true, value
	}
}

// Before says whether a value may be told after what was.
func (t *Told) Before(value float64) bool { return !t.some || value > t.most }

// Next is the least value worth telling after what was, for who has no progress to tell
// of: 0 at first. false: there is none.
func (t *Told) Next() (value float64, ok bool) {
	const little = 1e-6 // below what a child counts in, most of the time
	if !t.some {
		return 0, true
	}
	value = max(t.most+little, math.Nextafter(t.most, math.Inf(1)))
	return value, !math.IsInf(value, 0)
}

// OfTool says whether it is a tools/call.
func (c *Call) OfTool() bool { return c.Method == "" || c.Method == "tools/call" }

// What names what is asked for in logs: the tool, or the method of a request that
// is of none.
func (c *Call) What() string {
	if c.OfTool() {
		return c.Tool
	}
	return c.Method
}

// Payload is what the child gets beside the name of the tool.
func (c *Call) Payload() json.RawMessage {
	if c.OfTool() {
		return c.Args
	}
	return c.Params
}

// HeldPort is a caller who may have no use for more answers for a while, such as one
// that does not read them. It never blocks.
type HeldPort interface {
	// Holds says that a call which no child has is to be given back now.
	Holds() bool
	// TakeBack takes such a call, which no child has seen. It comes again later,
	// unless it is given up.
	TakeBack(call *Call)
}

// SendPort hears when a call goes to a child, and may add to its _meta.
type SendPort interface {
	// Sending is called right before the call is written, once for each
	// attempt, on the connection's goroutine; it never blocks. It returns
	// members for the _meta of the request, as `"name":"value"` with commas
	// between and valid JSON, or nil for none. The call may be answered
	// without it, and it may come after the caller was answered where that
	// was gone.
	Sending(s Sending) []byte
}

// Sending says where a call goes.
type Sending struct {
	Instance  uint64
	Attempt   uint8 // that of the [Call]
	Era       Era
	Transport Transport
}

// TraceContext is the W3C trace context of a request, as the JSON strings that
// its _meta holds, quotes included. What is absent is nil.
type TraceContext struct {
	Parent  json.RawMessage // traceparent
	State   json.RawMessage // tracestate
	Baggage json.RawMessage // baggage
}

// Answer ends a [Call]. Exactly one of Result, RPCError and Err is set.
type Answer struct {
	Call uint64
	// Result is the child's result member, byte for byte.
	Result json.RawMessage
	// RPCError is the child's error member, byte for byte: the child is well
	// and refused the request.
	RPCError json.RawMessage
	// Err is our own failure to get either of them.
	Err *Error
	// NeedsInput says that Result asks for input, where the call said that its
	// caller takes such a result.
	NeedsInput bool
	// Redacted says how many secrets of which kind were taken out of Result or
	// RPCError, which otherwise are the child's byte for byte; nil: none. It is
	// not changed.
	Redacted map[string]int
	// More says that further answers of the same child follow at once; see
	// [Frame]. A port that can flush is told when the last one was lost.
	More bool
	// Has is that of the [Frame] which Result came with.
	Has Members
	// Server and Instance say who answered.
	Server   string
	Instance uint64
	// FromActor and FromSpan say which actor answered in which handling, while
	// somebody traces; zero otherwise.
	FromActor string
	FromSpan  uint64
}

// Cancel gives up a call. The call's port gets CANCELLED unless it was
// answered before.
type Cancel struct {
	Meta
	Call   uint64
	Reason string
}

// Frame is one JSON-RPC message from a child, its members sliced raw from one
// buffer that nobody else uses. Absent members are nil.
type Frame struct {
	Instance uint64 // generation of the connection that it came from
	ID       json.RawMessage
	Method   string
	Params   json.RawMessage
	Result   json.RawMessage
	Error    json.RawMessage
	Size     int // bytes of the whole line
	// Related is the id of the request in whose answer's stream it came, where
	// the transport tells.
	Related json.RawMessage
	// Redacted is that of the [Answer] which the frame becomes.
	Redacted map[string]int
	// Has says which members it has, at any depth. Nothing that is done to the
	// frame later adds any of them.
	Has Members
	// More says that another message was read together with this one, so that
	// what this one causes may be held back until the last of them.
	More bool
}

// Members are names of members that somebody asks for later, so that a large
// result need not be searched for them again.
type Members uint8

// The names. Without MembersRead nobody looked, and all of them may be there.
const (
	MembersRead Members = 1 << iota
	MemberURI
	MemberTaskID
	MemberRequestState
	MemberIsError
)

// May says whether one of which may be there.
func (m Members) May(which Members) bool { return m&MembersRead == 0 || m&which != 0 }

// Correlation is the client request that a message belongs to, for the trace.
func (m Meta) Correlation() uint64 { return m.Trace }

// Correlation is the id of the call: that of the client's request, unless a script
// made the call.
func (a *Answer) Correlation() uint64 { return a.Call }

// PayloadBytes is the size of the arguments, for the trace.
func (c *Call) PayloadBytes() int { return len(c.Args) + len(c.Params) }

// PayloadBytes is the size of the result, for the trace.
func (a *Answer) PayloadBytes() int { return len(a.Result) + len(a.RPCError) }

// PayloadBytes is the size of the whole line, for the trace.
func (f *Frame) PayloadBytes() int { return f.Size }
