package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// PID addresses an actor. It stays valid after the actor stopped; messages to
// it then become dead letters, unless they are [Transient].
type PID = actor.PID

// Actor is what receives messages, one at a time. Receive must not block: on
// an actor spawned with [Inline] it runs on the sender's goroutine.
type Actor interface {
	Receive(c *Context, msg any)
}

// Lifecycle messages. An actor gets Started before any other message, and
// Stopping then Stopped after the last one; between them its children stop.
type (
	// Started is the first message of every incarnation.
	Started struct{}
	// Stopping comes before the actor's children are stopped.
	Stopping struct{}
	// Stopped comes last. The actor gets no message after it.
	Stopped struct{}
	// Restarting replaces Stopping where a supervisor restarts the actor.
	Restarting struct{}
	// Terminated tells a parent that a child is gone.
	Terminated struct{ Who *PID }
)

// System owns the actors of one host. Its methods may be called from any
// goroutine.
type System struct {
	as     *actor.ActorSystem
	root   *actor.RootContext
	log    *slog.Logger
	tracer atomic.Pointer[tracerBox]
	spans  atomic.Uint64
	living sync.Map // actor id → its actor.Mailbox

	deadLetters atomic.Uint64
	undelivered atomic.Pointer[func(msg any)]

	workers *workers
	ctx     context.Context
	cancel  context.CancelFunc
}

type tracerBox struct{ t Tracer }

// New builds an actor system. It takes some 10 ms where the program leaves
// protoactor's maps as large as they are (cmd/metamcp does not), so callers build
// it beside other work. log gets protoactor's own warnings and every caught panic.
func New(log *slog.Logger) *System {
	s := &System{log: log, workers: newWorkers()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	quiet := slog.New(atLeast{log.Handler(), slog.LevelWarn})
	s.as = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		// Its own log of dead letters is never shown, but keeps a goroutine for
		// this long after each.
		actor.WithDeadLetterThrottleInterval(time.Millisecond),
	)
	s.root = s.as.Root
	s.as.EventStream.Subscribe(func(evt any) {
		switch e := evt.(type) {
		case *actor.DeadLetterEvent:
			s.lost(e.PID.GetId(), e.Message)
		case *actor.SupervisorEvent:
			s.log.Error("an actor panicked", "actor", e.Child.GetId(), "panic", fmt.Sprint(e.Reason), "directive", e.Directive.String())
			if t := s.tracer.Load(); t != nil {
				t.t.Failure(e.Child.GetId(), fmt.Sprint(e.Reason), e.Directive.String())
			}
		}
	})
	return s
}

// SpawnRoot spawns an actor without a parent. The channel is closed once it
// and all its children have stopped. A panic of the actor ends in giveUp,
// called once on the goroutine that ran the actor.
func (s *System) SpawnRoot(name string, produce func() Actor, giveUp func(reason any), opts ...Option) (*PID, <-chan struct{}, error) {
	done := make(chan struct{})
	guard := &rootStrategy{giveUp: giveUp}
	props := s.props(produce, done, opts).Configure(actor.WithGuardian(guard))
	pid, err := s.root.SpawnNamed(props, name)
	if err != nil {
		return nil, nil, fmt.Errorf("spawn actor %s: %w", name, err)
	}
	return pid, done, nil
}

// Send puts msg into the mailbox of pid and returns at once. A nil pid and a
// stopped actor make a dead letter.
func (s *System) Send(pid *PID, msg any) {
	if pid == nil {
		s.lost("", msg)
		return
	}
	s.SendFrom(Origin{}, pid, msg)
}

// SendFrom is Send on behalf of an actor, for the trace.
func (s *System) SendFrom(from Origin, pid *PID, msg any) {
	if s.tracer.Load() != nil {
		msg = &traced{msg: msg, from: from, at: time.Now()}
	}
	s.root.Send(pid, msg)
}

// ActorInfo is one living actor at one moment.
type ActorInfo struct {
	ID      string
	Mailbox int // messages that wait
}

// Actors lists the living actors by id.
func (s *System) Actors() []ActorInfo {
	var out []ActorInfo
	s.living.Range(func(id, box any) bool {
		out = append(out, ActorInfo{ID: id.(string), Mailbox: max(0, box.(actor.Mailbox).UserMessageCount())})
		return true
	})
	slices.SortFunc(out, func(a, b ActorInfo) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Stop stops an actor and its children without waiting. Messages still in its
// mailbox are lost; an actor that owes answers gives them in Stopping.
func (s *System) Stop(pid *PID) { s.root.Stop(pid) }

// DeadLetters counts messages that found no actor, or one that stopped before
// it came to them.
func (s *System) DeadLetters() uint64 { return s.deadLetters.Load() }

// OnUndelivered installs f, which gets every dead letter: whoever owes its
// sender an answer gives it there. f runs on the sender's goroutine or on that
// of the stopped actor and must not block.
func (s *System) OnUndelivered(f func(msg any)) { s.undelivered.Store(&f) }

// Transient is a message that means something only to an actor that lives, such
// as the end of what the actor itself has ended: where the actor has stopped it
// is not missed, and is no dead letter.
type Transient interface{ Transient() }

// lost takes a message that no actor will handle.
func (s *System) lost(to string, msg any) {
	switch msg.(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage, actor.MailboxMessage:
		return
	}
	if t, ok := msg.(*traced); ok {
		msg = t.msg
	}
	if _, ok := msg.(Transient); ok && to != "" {
		return
	}
	s.deadLetters.Add(1)
	if t := s.tracer.Load(); t != nil {
		t.t.DeadLetter(to, msg)
	}
	if f := s.undelivered.Load(); f != nil {
		s.Contain(to, func() { (*f)(msg) })
	}
}

// Contain calls f on behalf of who, an actor's id or another name for logs and traces,
// and keeps a panic of it from the caller; see [Context.Contain].
func (s *System) Contain(who string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			s.as.EventStream.Publish(&actor.SupervisorEvent{Child: &PID{Id: who}, Reason: r, Directive: actor.ResumeDirective})
		}
	}()
	f()
}

// ErrShutDown is the reason why a worker was refused.
var ErrShutDown = errors.New("the actor system has shut down")

// Go runs a worker of an actor on a goroutine of its own. The context ends
// when the system shuts down, and Shutdown waits for the worker. A panic is
// caught, logged and handed to failed, which may be nil. Once Shutdown has
// seen the last worker end no other one starts: failed then gets
// [ErrShutDown], on the caller's goroutine and before Go returns.
func (s *System) Go(work func(ctx context.Context), failed func(reason any)) {
	if !s.workers.add() {
		if failed != nil {
			failed(ErrShutDown)
		}
		return
	}
	go func() {
		defer s.workers.done()
		defer func() {
			if r := recover(); r != nil {
				s.log.Error("a worker panicked", "panic", fmt.Sprint(r))
				if failed != nil {
					failed(r)
				}
			}
		}()
		work(s.ctx)
	}()
}

// Shutdown cancels the workers' context and waits for them until ctx ends.
// Actors are stopped before, by whoever spawned the root.
func (s *System) Shutdown(ctx context.Context) error {
	s.cancel()
	select {
	case <-s.workers.end():
		s.as.Shutdown()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("workers still running at shutdown: %w", ctx.Err())
	}
}

// Timer is a message that is on its way.
type Timer struct {
	t    *time.Timer
	over atomic.Bool // it went off, or was stopped
}

// Stop keeps the message from being sent if it is not on its way already; an
// actor that re-arms a timer must tell stale messages by a generation.
func (t *Timer) Stop() {
	if t != nil {
		t.over.Store(true)
		t.t.Stop()
	}
}

// A timer that goes off later than it should by late tells that this process, or the
// machine, stood still. What others did meanwhile waits in pipes: it is read first,
// for as long as catchUp, or a child that had answered would be taken for silent.
const (
	late    = time.Second
	catchUp = 500 * time.Millisecond
)

// reminder is what a timer sends. It may be in the mailbox of an actor that stops, as
// little missed there as one whose timer the actor has stopped in time.
type reminder struct{ msg any }

func (*reminder) Transient() {}

// After sends msg to pid once d has passed. Where this process was stopped meanwhile
// it comes a moment later still, after what had come for actors before. Where pid has
// stopped by then, or stops before it comes to msg, that is no dead letter.
func (s *System) After(d time.Duration, pid *PID, msg any) *Timer {
	t := &Timer{}
	due := time.Now().Add(d)
	send := func() {
		if !t.over.Swap(true) {
			s.Send(pid, &reminder{msg})
		}
	}
	t.t = time.AfterFunc(d, func() {
		if time.Since(due) > late {
			time.AfterFunc(catchUp, send) // Stop sets over
			return
		}
		send()
	})
	return t
}

// atLeast drops records below a level: protoactor greets at info.
type atLeast struct {
	slog.Handler
	min slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.min && h.Handler.Enabled(ctx, l)
}
func (h atLeast) WithAttrs(a []slog.Attr) slog.Handler { return atLeast{h.Handler.WithAttrs(a), h.min} }
func (h atLeast) WithGroup(n string) slog.Handler      { return atLeast{h.Handler.WithGroup(n), h.min} }
