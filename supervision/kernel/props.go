package kernel

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Option shapes an actor at its spawn.
type Option func(*options)

type options struct {
	inline bool
	decide Decide
}

// Directive is what a supervisor does with a child that panicked.
type Directive uint8

// The directives.
const (
	Resume   Directive = iota // go on with the next message, state kept
	Restart                   // a new instance from the producer; its children are stopped
	Stop                      // stop it
	Escalate                  // let the supervisor's own supervisor decide
)

// Decide chooses the directive for a child that panicked with reason.
type Decide func(child string, reason any) Directive

// Inline runs the actor's handler on the sender's goroutine, still one message
// at a time. It saves a goroutine hand-off a hop, which is most of what an
// actor costs, and binds the handler to never block.
func Inline() Option { return func(o *options) { o.inline = true } }

// Supervise sets how the actor treats its children's panics. Without it they
// are stopped.
func Supervise(d Decide) Option { return func(o *options) { o.decide = d } }

// throughput is how many messages an actor handles before it yields.
const throughput = 300

var (
	inlineDispatcher    = actor.NewSynchronizedDispatcher(throughput)
	goroutineDispatcher = actor.NewDefaultDispatcher(throughput)
)

// props builds fresh props for every spawn, since protoactor's middleware
// propagation changes shared ones.
func (s *System) props(produce func() Actor, done chan struct{}, opts []Option) *actor.Props {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	d := goroutineDispatcher
	if o.inline {
		d = inlineDispatcher
	}
	if o.decide == nil {
		o.decide = func(string, any) Directive { return Stop }
	}
	end := &tail{sys: s}
	unbounded := actor.Unbounded(end)
	return actor.PropsFromProducer(func() actor.Actor {
		return &host{inner: produce(), ctx: Context{sys: s}, done: done, end: end}
	}, actor.WithDispatcher(d), actor.WithSupervisor(&strategy{decide: o.decide}), actor.WithMailbox(func() actor.Mailbox {
		end.box = unbounded()
		return end.box
	}))
}

// tail watches the mailbox of one actor: what is still in it when the actor
// has stopped is a dead letter, though protoactor drops it without a word.
type tail struct {
	sys   *System
	ended bool // the mailbox handles one message at a time, which orders access
	id    string
	box   actor.Mailbox
}

func (t *tail) MailboxStarted()   {}
func (t *tail) MessagePosted(any) {}
func (t *tail) MailboxEmpty()     {}
func (t *tail) MessageReceived(msg any) {
	if t.ended {
		t.sys.lost(t.id, msg)
	}
}

// host adapts an Actor to protoactor and is the one receiver that all messages
// pass.
type host struct {
	inner Actor
	ctx   Context
	done  chan struct{}
	end   *tail

	record Record // of the message at hand, while somebody traces
}

func (h *host) Receive(ac actor.Context) {
	h.ctx.ac = ac
	msg := ac.Message()
	switch m := msg.(type) {
	case *actor.Started:
		h.ctx.sys.living.Store(ac.Self().GetId(), h.end.box)
		msg = Started{}
	case *actor.Stopping:
		h.ctx.stopping = true
		h.ctx.stopTimers()
		msg = Stopping{}
	case *actor.Restarting:
		h.ctx.stopTimers()
		msg = Restarting{}
	case *actor.Stopped:
		h.end.ended, h.end.id = true, ac.Self().GetId()
		h.ctx.sys.living.Delete(h.end.id)
		h.ctx.stopTimers() // set while its children were stopping
		if h.done != nil {
			defer close(h.done)
		}
		msg = Stopped{}
	case *actor.Terminated:
		msg = Terminated{Who: m.Who}
	case *traced:
		h.receiveTraced(m)
		return
	case *reminder:
		msg = m.msg
	}
	h.inner.Receive(&h.ctx, msg)
}

func (h *host) receiveTraced(m *traced) {
	msg := m.msg
	if due, ok := msg.(*reminder); ok {
		msg = due.msg
	}
	box := h.ctx.sys.tracer.Load()
	if box == nil {
		h.inner.Receive(&h.ctx, msg)
		return
	}
	r := &h.record
	*r = Record{
		From: m.from.Actor, To: h.ctx.ac.Self().GetId(), Type: TypeName(msg), Sent: m.at,
		Span: h.ctx.sys.spans.Add(1), Parent: m.from.Span,
	}
	h.ctx.span, h.ctx.correlation = r.Span, m.correlation
	if c, ok := msg.(correlated); ok && c.Correlation() != 0 {
		h.ctx.correlation = c.Correlation()
	}
	if c, ok := msg.(sized); ok {
		r.Bytes = c.PayloadBytes()
	}
	st, stated := h.inner.(Stater)
	if stated {
		r.Before = st.StateName()
	}
	r.Wait = time.Since(m.at) // half the price of time.Now
	panicked := true
	defer func() {
		r.Ran = time.Since(m.at) - r.Wait
		r.Panicked = panicked
		r.Correlation = h.ctx.correlation
		h.ctx.span, h.ctx.correlation = 0, 0
		if stated {
			r.After = st.StateName()
		}
		box.t.Message(r)
	}()
	h.inner.Receive(&h.ctx, msg)
	panicked = false
}

// strategy carries a Decide into protoactor.
type strategy struct{ decide Decide }

func (s *strategy) HandleFailure(as *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any) {
	publish := func(d actor.Directive) {
		as.EventStream.Publish(&actor.SupervisorEvent{Child: child, Reason: reason, Directive: d})
	}
	switch s.decide(baseName(child.GetId()), reason) {
	case Resume:
		publish(actor.ResumeDirective)
		sup.ResumeChildren(child)
	case Restart:
		publish(actor.RestartDirective)
		sup.RestartChildren(child)
	case Escalate:
		publish(actor.EscalateDirective)
		sup.EscalateFailure(reason, message)
	default:
		publish(actor.StopDirective)
		sup.StopChildren(child)
	}
}

// rootStrategy ends an actor that has no parent and tells its owner.
type rootStrategy struct{ giveUp func(reason any) }

func (s *rootStrategy) HandleFailure(as *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	as.EventStream.Publish(&actor.SupervisorEvent{Child: child, Reason: reason, Directive: actor.StopDirective})
	sup.StopChildren(child)
	if s.giveUp != nil {
		s.giveUp(reason)
	}
}
