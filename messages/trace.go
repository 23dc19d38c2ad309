package messages

import (
	"encoding/json"
	"time"
)

// TraceVersion is the version of the trace's format; see docs/TRACE.md.
const TraceVersion = 2

// The kinds of trace records that are not events of the runtime. Every other
// kind is an event: its name, such as "transition", "lease" or "spawn".
const (
	// TraceStart is the first record of a file and of an attached viewer: who
	// traces. Detail is "metamcp VERSION, pid PID".
	TraceStart = "start"
	// TraceMessage is one message that one actor handled.
	TraceMessage = "message"
	// TraceDeadLetter is a message that no actor handled.
	TraceDeadLetter = "dead-letter"
	// TraceFailure is a panic of an actor and what its supervisor did.
	TraceFailure = "failure"
	// TraceDropped says how many records found no room; Count is the number.
	TraceDropped = "dropped"
	// TraceRequest is a client's request as it enters: Server, Tool and the
	// size of its arguments.
	TraceRequest = "request"
	// TraceAnswer is the one answer to a request: Outcome, the whole duration
	// in RanNs, and the size of the result.
	TraceAnswer = "answer"
	// TraceCall is a call that a script makes while its request lasts, with
	// what TraceRequest tells.
	TraceCall = "call"
	// TraceReturn is the one answer to such a call, with what TraceAnswer tells.
	TraceReturn = "return"
)

// TraceRecord is one line of a trace. Names, states, times and sizes are in
// it; arguments and results only where somebody asked for payloads.
type TraceRecord struct {
	V    int       `json:"v"`
	Time time.Time `json:"time"` // when it was sent, or happened; UTC
	Kind string    `json:"kind"`
	// PID is the process that wrote it, in a file: several hosts may write to one,
	// and each counts requests and spans from 1. Elsewhere it is 0.
	PID int `json:"pid,omitempty"`
	// Request is the client's request that caused it; 0: none.
	Request uint64 `json:"request,omitempty"`
	// Span numbers the handling of one message; for an event, the handling in
	// which it happened, 0 where that was outside an actor.
	Span uint64 `json:"span,omitempty"`
	// Parent is the span in which the message was sent; 0: no actor sent it.
	Parent uint64 `json:"parent,omitempty"`
	From   string `json:"from,omitempty"` // "": an edge, a timer, a child's reader
	To     string `json:"to,omitempty"`   // the receiver, or the actor of the event
	Type   string `json:"type,omitempty"`
	Before string `json:"before,omitempty"` // the receiver's state
	After  string `json:"after,omitempty"`
	WaitNs int64  `json:"waitNs,omitempty"` // in the mailbox; of a script's answer, the part of RanNs until it had a process
	RanNs  int64  `json:"ranNs,omitempty"`  // in the handler; of an answer, since the request
	// Outcome of a message is "" or "panic"; of an answer "ok", "tool-error"
	// (the tool's own isError), "rpc-error" (the child's JSON-RPC error) or a
	// [Code].
	Outcome string `json:"outcome,omitempty"`
	Server  string `json:"server,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Bytes   int    `json:"bytes,omitempty"` // of the arguments or the result
	Count   uint64 `json:"count,omitempty"`
	Detail  string `json:"detail,omitempty"` // of an event, in words
	// Payload is arguments or result, scrubbed of secrets, only with
	// --trace-payloads.
	Payload json.RawMessage `json:"payload,omitempty"`
}
