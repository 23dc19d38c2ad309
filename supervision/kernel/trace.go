package kernel

import (
	"reflect"
	"strings"
	"sync"
	"time"
)

// Record is one message on its way from one actor to another.
type Record struct {
	From        string // "" where no actor sent it: an edge, a timer, a reader
	To          string
	Type        string
	Correlation uint64 // the client request that it belongs to; 0 none
	Span        uint64 // number of this handling
	Parent      uint64 // the handling in which it was sent; 0: none, or not traced
	Bytes       int    // of arguments or result, where it carries some
	Sent        time.Time
	Wait        time.Duration // in the mailbox
	Ran         time.Duration // in the handler
	Before      string        // state of the receiver, where it has one
	After       string
	Panicked    bool
}

// Event is something that happened to an actor and is no message.
type Event struct {
	Actor, Kind, Detail string
	Correlation         uint64 // 0: none
	Span                uint64 // the handling in which it happened
}

// Tracer sees every message and event. Its methods are called on the actors'
// own goroutines and must neither block nor keep what they are given; Record
// and Event are the tracer's only during the call.
type Tracer interface {
	Message(r *Record)
	Event(e *Event)
	DeadLetter(to string, msg any)
	Failure(actor, reason, directive string)
}

// Stater is an actor that can name its state.
type Stater interface{ StateName() string }

// correlated is a message that knows the client request that caused it.
type correlated interface{ Correlation() uint64 }

// sized is a message that carries arguments or a result.
type sized interface{ PayloadBytes() int }

// Origin says which handling something was sent from: for answers, which reach
// an actor through a port of the edge. The zero Origin is no actor.
type Origin struct {
	Actor string
	Span  uint64
}

// SetTracer installs t, or removes the tracer when t is nil. Messages that are
// under way at that moment may go untraced.
func (s *System) SetTracer(t Tracer) {
	if t == nil {
		s.tracer.Store(nil)
		return
	}
	s.tracer.Store(&tracerBox{t})
}

// traced is the envelope of a message while somebody traces: it alone knows
// who sent it and when.
type traced struct {
	msg  any
	from Origin
	at   time.Time
	// correlation is that of the message that made the sender send, for
	// messages that know none of their own.
	correlation uint64
}

var typeNames sync.Map // reflect.Type → string

// TypeName is what a trace calls a message.
func TypeName(msg any) string {
	t := reflect.TypeOf(msg)
	if t == nil {
		return "nil"
	}
	if n, ok := typeNames.Load(t); ok {
		return n.(string)
	}
	n := strings.TrimPrefix(t.String(), "*")
	if i := strings.LastIndexByte(n, '.'); i >= 0 {
		n = n[i+1:]
	}
	typeNames.Store(t, n)
	return n
}
