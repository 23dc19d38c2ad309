package front

import "github.com/metamcp/metamcp/messages"

// streamless says that the answer to a request is all that its client takes over
// HTTP: it cannot be asked before that.
func (e *Entry) streamless() bool {
	st, overHTTP := e.out.(*stream)
	return e.Era != messages.EraModern && overHTTP && st.answered
}

// Streamless is implemented by the [messages.ClientPort] of a request.
type Streamless interface {
	// Streamless says that the client takes nothing but the answer to its request,
	// so that a question for it has to wait for that.
	Streamless() bool
}

// Streamless implements [Streamless].
func (p *pending) Streamless() bool { return p.streamless() }

// Streamless implements [Streamless].
func (c *Caller) Streamless() bool { return c.e.streamless() }
