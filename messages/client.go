package messages

import "encoding/json"

// What a server may ask the client whose call it works on.
const (
	MethodElicit = "elicitation/create"
	MethodSample = "sampling/createMessage"
	MethodRoots  = "roots/list"
)

// ExtensionTasks is the extension of the protocol with which an answer may be a task
// that is asked for later.
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// ClientCan is what a client said that it can be asked for. The zero value can be
// asked for nothing.
type ClientCan struct {
	Form, URL       bool // the modes of elicitation
	Sampling        bool
	SamplingTools   bool
	SamplingContext bool
	Roots           bool
	// Tasks says that it takes tasks for answers, which is no question: what a
	// server may ask does not restrict it.
	Tasks bool
}

// And returns what both can be asked for. Tasks is that of c alone: no server restricts
// what its client takes.
func (c ClientCan) And(d ClientCan) ClientCan {
	return ClientCan{
		Form: c.Form && d.Form, URL: c.URL && d.URL,
		Sampling: c.Sampling && d.Sampling, SamplingTools: c.SamplingTools && d.SamplingTools, SamplingContext: c.SamplingContext && d.SamplingContext,
		Roots: c.Roots && d.Roots, Tasks: c.Tasks,
	}
}

// ClientPort reaches the client whose request caused a call. Its methods may be
// called from any goroutine and never block. What is said for a call that is over
// goes nowhere.
type ClientPort interface {
	// Ask puts questions to the client, all at once. Each question's port hears
	// exactly once, unless it is withdrawn before.
	Ask(call uint64, questions []*Question)
	// Withdraw says that nobody waits for these answers any more; their ports
	// hear nothing after it, but for what is on its way already.
	Withdraw(call uint64, questions []*Question, reason string)
	// Notify passes on a notification that belongs to the call.
	Notify(call uint64, method string, params json.RawMessage)
}

// Question is what a server asks of a client. It is not changed after it was made.
type Question struct {
	ID     uint64 // unique in this host
	Method string
	// Params is one JSON object of the server's, byte for byte but for secrets;
	// nil: there is none.
	Params json.RawMessage
	Reply  QuestionPort
}

// QuestionPort takes the answer to a question. It never blocks.
type QuestionPort interface {
	Answered(a *QuestionAnswer)
}

// WithdrawnPort is a [QuestionPort] that is told when a question which was withdrawn
// can be answered no more: an answer that the client had given by then came before. It
// never blocks.
type WithdrawnPort interface {
	Withdrawn()
}

// ProgressedPort is a [QuestionPort] that also hears how far the client is, as long as
// the question is open. It never blocks.
type ProgressedPort interface {
	Progressed(p *QuestionProgress)
}

// QuestionProgress is how far a client says that it is with the answer to a question.
type QuestionProgress struct {
	Question uint64
	// Params are those of the client's notification, byte for byte, but with the
	// progress token of the question itself.
	Params json.RawMessage
}

// QuestionAnswer is what a client says to a question. Exactly one of Result and
// Error is set: the client's own bytes, or an error of ours in the same form.
type QuestionAnswer struct {
	Question uint64
	Result   json.RawMessage // one JSON object
	Error    json.RawMessage // one JSON object with code and message
}

// Input is what goes with a call that answers what a modern server has asked for
// in the result of the call before: the members of the request, as the client sent
// them; nil where they are absent.
type Input struct {
	Responses json.RawMessage
	State     json.RawMessage
}

// LogLevel says how much of a server's log a client wants.
type LogLevel uint8

// LogNone is nothing, LogAny what a server sends by itself; the others are the
// levels of the protocol, from the one that lets the most through.
const (
	LogNone LogLevel = iota
	LogAny
	LogDebug
	LogInfo
	LogNotice
	LogWarning
	LogError
	LogCritical
	LogAlert
	LogEmergency
)

var logLevels = [...]string{"", "", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// String is the protocol's word for the level; "" where it has none.
func (l LogLevel) String() string {
	if int(l) < len(logLevels) {
		return logLevels[l]
	}
	return ""
}

// ParseLogLevel reads such a word; LogNone for any other.
func ParseLogLevel(s string) LogLevel {
	for i, name := range logLevels {
		if name == s && s != "" {
			return LogLevel(i)
		}
	}
	return LogNone
}

// PayloadBytes is the size of the parameters, for the trace.
func (q *Question) PayloadBytes() int { return len(q.Params) }

// PayloadBytes is the size of the notification, for the trace.
func (p *QuestionProgress) PayloadBytes() int { return len(p.Params) }

// PayloadBytes is the size of the answer, for the trace.
func (a *QuestionAnswer) PayloadBytes() int { return len(a.Result) + len(a.Error) }
