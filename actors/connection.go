package actors

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Bounds of one connection.
const (
	// maxConnWaiters bounds the calls that wait for a connection to be ready.
	maxConnWaiters = 4096
	// maxInFlight bounds the calls that a child has been given and has not
	// answered.
	maxInFlight = 65536
	// pingTimeout is how long a child that let a request time out has to
	// answer a ping before it counts as lost.
	pingTimeout = 5 * time.Second
	// exitGrace is how long a run that ended its stdout has to exit, and one
	// that exited to end its stdout, before the other is taken for granted.
	exitGrace = 500 * time.Millisecond
)

// connection is the actor of one live session with one child. Its mailbox
// enforces the five-state machine: what the state does not allow never
// reaches the handler. It owns the process, the requests in flight and those
// that wait for the handshake.
//
// It runs on its senders' goroutines (kernel.Inline) and so never blocks:
// starting, signalling and looking at processes happen in workers.
type connection struct {
	deps     *connectionDeps
	spec     *messages.ServerSpec
	instance uint64
	gauge    *supervision.Gauge

	sys    *kernel.System
	self   *kernel.PID
	parent *kernel.PID

	state     messages.State
	ready     bool // handshake over, requests may be sent
	finishing bool // it ends once it has no calls

	waiters  []*messages.Call // FIFO
	inflight map[uint64]*pending
	internal map[uint64]func(c *kernel.Context, f *messages.Frame)
	asides   []aside // of internal
	listing  *listing
	relist   relisting
	gate     gate
	watch    watching
	shares   shares
	weights  weights
	asks     asks
	left     departed             // also those that were answered
	gaveUp   departed             // those that the child has not answered
	asker    *atomic.Bool         // this server asks clients; shared by all that is started of it
	turning  bool                 // those that wait for their turn are being served
	verdicts uint64               // on listings, ever
	holding  []messages.FlushPort // ports that may hold an answer back
	nextID   uint64
	handled  uint64 // calls that left this connection, answered or handed back
	answered uint64 // calls that the child answered
	proven   bool   // a request was answered since the last Connect

	runs  uint64
	run   *run
	hs    handshake
	wake  time.Time // when the deadline timer goes off; zero: not armed
	timer *kernel.Timer
	gen   uint64 // of the deadline timer
	ping  *kernel.Timer
	pings uint64 // ever sent
	// pinged is the request of the last ping, an aside. Its answer is waited for until
	// the next one, also where something else has shown that the child lives.
	pinged uint64

	health    *kernel.Timer
	healthGen uint64

	ctx   *kernel.Context // valid while a message is handled
	cause uint64          // request for which the child is being started, for the trace
	broke string          // what the last message panicked with, until it is dealt with
}

// connectionDeps is what all connections of a host share.
type connectionDeps struct {
	launcher Launcher
	identity *identity
	index    *kernel.PID
	notices  *kernel.PID
	// holding says that calls have to wait for the verdict on what a child
	// lists; vet is the verdict on one call by what is known now, nil: it may go, and
	// accepted what was accepted of a server's tools, nil: that is not known.
	holding  func() bool
	vet      func(call *messages.Call) *messages.Error
	accepted func(server string) messages.Accepted
	status   func(server string) messages.Status    // what is known of how a server does
	alone    func() bool                            // the host has one session at most
	starts   chan struct{}                          // bounds concurrent starts
	askers   sync.Map                               // by askerKey: servers that ask, *atomic.Bool
	asked    *atomic.Uint64                         // questions to clients, ever
	launches atomic.Uint64                          // processes ever started: their number marks their trees
	refused  atomic.Uint64                          // messages that the state did not allow
	late     atomic.Uint64                          // answers and progress to nobody, or of no use to anybody
	scrub    func(server string, f *messages.Frame) // nil: frames stay
	// scrubError returns an error without secrets, scrubText a text; that may be nil.
	scrubError func(err *messages.Error) *messages.Error
	scrubText  func(text []byte) []byte
}

// pending is a call that the child has.
type pending struct {
	call     *messages.Call
	timeout  time.Duration
	since    time.Time
	deadline time.Time     // moves with progress
	limit    time.Time     // does not
	told     messages.Told // before the child had it, and in the place of what it said since
	word     time.Time     // since when nothing was told in the place of what the child said
	tool     *toolWeight
	weight   int // what it counts for in weights

	asking int             // questions that are with the client; deadline and limit stand still meanwhile
	paused time.Time       // since when
	stood  time.Duration   // before that
	asked  int             // questions, ever
	asks   []*ask          // of them, those that are open
	round  uint64          // how often the call was repeated with input
	away   bool            // the child does not have it: it has answered, and input is being asked for, or it is asked for by subscribing to more
	wanted *inputWanted    // of the former
	input  *messages.Input // what the call was repeated with
}

// deadlineDue is the connection's own alarm; pingDue tells that a ping found
// no answer.
type (
	deadlineDue struct{ gen uint64 }
	pingDue     struct{ run, n uint64 }
	startupDue  struct{ run uint64 }
	probeDue    struct{ run uint64 }
	// brokeDue makes sure that a panic is dealt with though nothing else comes.
	brokeDue struct{}
)

// askerKey is what is remembered of an entry under.
func askerKey(spec *messages.ServerSpec) string { return spec.Name + "\x00" + spec.Hash }

// forgetAskers forgets what was found out about entries that are there no more. What
// still runs of them has it.
func (d *connectionDeps) forgetAskers(there []*messages.ServerSpec) {
	known := make(map[string]bool, len(there))
	for _, spec := range there {
		known[askerKey(spec)] = true
	}
	d.askers.Range(func(key, _ any) bool {
		if !known[key.(string)] { //nolint:forcetypeassert // nothing else is in the map
			d.askers.Delete(key)
		}
		return true
	})
}

func newConnection(deps *connectionDeps, spec *messages.ServerSpec, instance uint64, gauge *supervision.Gauge) *connection {
	asker, _ := deps.askers.LoadOrStore(askerKey(spec), new(atomic.Bool))
	return &connection{
		asker: asker.(*atomic.Bool), //nolint:forcetypeassert // nothing else is in the map
		deps:  deps, spec: spec, instance: instance, gauge: gauge,
		inflight: make(map[uint64]*pending),
		internal: make(map[uint64]func(*kernel.Context, *messages.Frame)),
		nextID:   internalID,
	}
}

// StateName implements kernel.Stater.
func (c *connection) StateName() string { return supervision.StateName(c.state) }

// Receive implements kernel.Actor. After a panic the supervisor resumes the
// connection, which then gives its calls back and ends its child like one that
// was lost: it alone knows both.
func (c *connection) Receive(ctx *kernel.Context, msg any) {
	returned := false
	defer func() {
		if !returned {
			c.broke = fmt.Sprintf("the connection broke inside metamcp (%T)", msg)
			ctx.Send(ctx.Self(), &brokeDue{})
		}
	}()
	if c.broke != "" {
		why := c.broke
		c.broke = ""
		c.fail(ctx, messages.Evidence{Text: why})
	}
	c.ctx = ctx
	c.receive(ctx, msg)
	returned = true
	c.gauge.Load.Store(int64(len(c.inflight) + len(c.waiters)))
}

func (c *connection) receive(ctx *kernel.Context, msg any) {
	if ctx.Tracing() && ctx.Correlation() == 0 {
		ctx.Correlate(c.concerned())
	}
	switch m := msg.(type) {
	case *messages.Call:
		c.onCall(ctx, m)
	case *messages.Frame:
		if c.run != nil && m.Instance == c.run.n {
			c.onFrame(ctx, m)
		}
	case *runFlush:
		c.letGo()
	case *messages.Cancel:
		c.onCancel(ctx, m)
	case *messages.TurnAway:
		c.onTurnAway(ctx, m)
	case *messages.Connect:
		c.onConnect(ctx, m)
	case *messages.Close:
		c.onClose(ctx, m)
	case *messages.ReturnCalls:
		c.onReturnCalls(ctx)
	case *messages.Finish:
		c.onFinish(ctx)
	case *messages.Relist:
		c.onRelist(ctx)
	case *messages.Respec:
		c.onRespec(ctx, m)
	case *deadlineDue:
		if m.gen == c.gen {
			c.onDeadline(ctx)
		}
	case *pingDue:
		if c.run != nil && m.run == c.run.n && m.n == c.pings && c.ping != nil {
			c.fail(ctx, messages.Evidence{Timeout: true, Text: "the server stopped answering: a ping, as after a request that timed out, found no answer within " + pingTimeout.String()})
		}
	case *healthDue:
		c.onHealthDue(ctx, m)
	case *startupDue:
		c.onStartupDue(ctx, m)
	case *probeDue:
		c.onProbeDue(ctx, m)
	case *listDue:
		c.onListDue(ctx, m)
	case *listenDue:
		c.onListenDue(ctx, m)
	case *unsubscribe:
		c.onUnsubscribe(ctx, m)
	case *relistDue:
		c.onRelistDue(ctx, m)
	case *verdictDue:
		c.onVerdictDue(ctx, m)
	case *messages.Judged:
		c.onJudged(ctx, m)
	case *messages.QuestionAnswer:
		c.onAnswered(ctx, m)
	case *messages.QuestionProgress:
		c.onProgressed(ctx, m)
	case *askDue:
		c.onAskDue(ctx, m)
	case *turnDue:
		c.onTurnDue(ctx, m)
	case *heldAskDue:
		c.onHeldAskDue(ctx, m)
	case *weighDue:
		c.onWeighDue(ctx, m)
	case *judgeDue:
		c.onJudgeDue(ctx, m)
	case *runStarting:
		c.onStarting(ctx, m)
	case *runLaunched:
		c.onLaunched(ctx, m)
	case *runEOF:
		c.onEOF(ctx, m)
	case *runExited:
		c.onExited(ctx, m)
	case *exitDue:
		c.onExitDue(ctx, m)
	case *runTooLarge:
		c.onTooLarge(ctx, m)
	case *runBroken:
		c.onBroken(ctx, m)
	case *runRenewed:
		c.onRenewed(ctx, m)
	case *runUnheard:
		c.onUnheard(ctx, m)
	case *acknowledgeDue:
		c.onAcknowledgeDue(ctx, m)
	case *runNoise:
		ctx.Event("noise", m.line, 0)
	case *ladderDue:
		c.onLadderDue(ctx, m)
	case *runStep:
		c.onStep(ctx, m)
	case *runGone:
		c.onGone(ctx, m)
	case kernel.Started:
		c.sys, c.self, c.parent = ctx.System(), ctx.Self(), ctx.Parent()
	case kernel.Stopping:
		c.onStopping(ctx)
	}
}

// onRespec takes over what a running child does not feel of its server's new
// configuration. What is under way keeps the times with which it began. A child of
// an older configuration ends as soon as it can and keeps that until then.
func (c *connection) onRespec(ctx *kernel.Context, m *messages.Respec) {
	if m.Spec.Hash != c.spec.Hash {
		return
	}
	c.spec = m.Spec
	if c.state == messages.StateIdle && c.ready {
		c.watchHealth(ctx)
	}
	c.nextTurn(ctx) // it may be given more calls at once
}

// concerned is the request that what happens now matters to, for the trace: the
// one that a child is being started for, or the only one that it has.
func (c *connection) concerned() uint64 {
	switch {
	case c.state == messages.StateConnecting:
		return c.cause
	case len(c.inflight) == 1:
		for _, p := range c.inflight {
			return p.call.Trace
		}
	}
	return 0
}

// to moves the machine. It reports false, counts and traces where the table
// refuses; the caller then leaves everything as it is.
func (c *connection) to(ctx *kernel.Context, e supervision.Event) bool {
	next, ok := supervision.Next(c.state, e)
	if !ok {
		c.refuse(ctx, e)
		return false
	}
	if next != c.state {
		ctx.Event("transition", supervision.TransitionText(c.state, e), 0)
		c.state = next
	}
	return true
}

// refuse counts and traces what the state does not allow.
func (c *connection) refuse(ctx *kernel.Context, e supervision.Event) {
	c.deps.refused.Add(1)
	ctx.Event("refused", e.String()+" while "+supervision.StateName(c.state), 0)
}

// idleIfDone takes an ACTIVE connection to IDLE when nothing is in flight.
func (c *connection) idleIfDone(ctx *kernel.Context) {
	c.nextTurn(ctx)
	c.finish(ctx)
	if c.state != messages.StateActive || len(c.inflight) > 0 || c.listing != nil {
		return
	}
	if c.to(ctx, supervision.EventLastRequestDone) {
		c.watchHealth(ctx)
		c.tellIdle(ctx)
	}
}

// stillIdle follows the end of calls that the child did not get: the breaker has
// counted them and takes an idle connection for a busy one. One that has not been
// started is IDLE too; its breaker learns that nobody waits for its start any more.
func (c *connection) stillIdle(ctx *kernel.Context) {
	if c.state == messages.StateIdle {
		c.tellIdle(ctx)
	}
	c.finish(ctx)
}

func (c *connection) tellIdle(ctx *kernel.Context) {
	ctx.Send(c.parent, &messages.ConnectionIdle{Instance: c.instance, Handled: c.handled, Answered: c.answered, Keep: c.watch.any()})
}

func (c *connection) onStopping(ctx *kernel.Context) {
	// Only a panic or a host that skips its shutdown comes here with a run:
	// nothing of it may survive, and nobody may wait for an answer for ever.
	gone := &messages.Error{
		Code: messages.CodeConnection, Server: c.spec.Name, Class: messages.ClassOther,
		Message: "the connection to " + strconv.Quote(c.spec.Name) + " was stopped; whether the call took effect is unknown",
		Hint:    "Check what the call may have done before you repeat it.",
	}
	for _, p := range c.inflight {
		c.forgetAsks(ctx, p, "the server was stopped")
		c.answer(p.call, &messages.Answer{Err: gone})
	}
	for _, w := range c.waiters {
		c.answer(w, &messages.Answer{Err: gone})
	}
	c.inflight, c.waiters = nil, nil
	c.letGo()
	c.timer.Stop()
	c.ping.Stop()
	c.health.Stop()
	c.watch.listen.due.Stop()
	c.relist.stop()
	c.weights.timer.Stop()
	if r := c.run; r != nil && !r.gone {
		if link := r.abandon(); link != nil {
			c.sys.Go(func(context.Context) { killTree(link) }, func(reason any) {
				if reason == any(kernel.ErrShutDown) {
					link.Signal(messages.SignalKill) // nobody is left who could watch it go
				}
			})
		}
	}
}

// killTree ends what is left of a run that nobody looks after any more.
func killTree(link Link) {
	link.Signal(messages.SignalKill)
	for end := time.Now().Add(supervision.ReapWait); link.TreeAlive() && time.Now().Before(end); {
		waitALittle(context.Background())
	}
	link.Release()
}
