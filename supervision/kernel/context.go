package kernel

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Context is an actor's view of the system. It belongs to the actor and is
// valid only inside Receive; a goroutine keeps Self and the System instead.
type Context struct {
	sys      *System
	ac       actor.Context
	stopping bool

	timers []*Timer // that may still go off
	enough int      // of them, before those that are over are sorted out

	// Of the message that is being handled, while somebody traces.
	span, correlation uint64
}

// errStopping is what Spawn returns to an actor that is being stopped.
var errStopping = errors.New("the actor is being stopped")

// System is the system that the actor lives in.
func (c *Context) System() *System { return c.sys }

// Self is the actor's own address.
func (c *Context) Self() *PID { return c.ac.Self() }

// Name is the actor's name without its parents'.
func (c *Context) Name() string { return baseName(c.ac.Self().GetId()) }

// Parent is the address of the supervisor, nil for a root actor.
func (c *Context) Parent() *PID { return c.ac.Parent() }

// Send puts msg into the mailbox of pid.
func (c *Context) Send(pid *PID, msg any) {
	if pid == nil {
		c.sys.lost("", msg)
		return
	}
	if c.sys.tracer.Load() != nil {
		msg = &traced{msg: msg, from: Origin{c.ac.Self().GetId(), c.span}, at: time.Now(), correlation: c.correlation}
	}
	c.sys.root.Send(pid, msg)
}

// Spawn starts a child actor under this one. The name must be free: a
// generation in it keeps it from meeting one that is still stopping. An actor
// that has got Stopping cannot spawn: nobody would stop the child, and it would
// never stop itself.
func (c *Context) Spawn(name string, produce func() Actor, opts ...Option) (*PID, error) {
	if c.stopping {
		return nil, fmt.Errorf("spawn actor %s under %s: %w", name, c.ac.Self().GetId(), errStopping)
	}
	pid, err := c.ac.SpawnNamed(c.sys.props(produce, nil, opts), name)
	if err != nil {
		return nil, fmt.Errorf("spawn actor %s under %s: %w", name, c.ac.Self().GetId(), err)
	}
	return pid, nil
}

// Stop stops the actor at pid, which may be this one.
func (c *Context) Stop(pid *PID) { c.ac.Stop(pid) }

// Finish stops the actor at pid once it has handled what is in its mailbox,
// so that nothing which was sent to it before is lost.
func (c *Context) Finish(pid *PID) { c.sys.root.Poison(pid) }

// After sends msg to this actor once d has passed, unless the actor stops before.
func (c *Context) After(d time.Duration, msg any) *Timer {
	t := c.sys.After(d, c.ac.Self(), msg)
	const few = 16
	if len(c.timers) >= max(few, c.enough) {
		c.timers = slices.DeleteFunc(c.timers, func(t *Timer) bool { return t.over.Load() })
		c.enough = 2 * len(c.timers)
	}
	c.timers = append(c.timers, t)
	return t
}

// Contain calls f, which is somebody else's code, such as the port of a caller. A
// panic of it is logged and traced as the actor's own and ends there: whatever else
// the actor does, and for whom, goes on.
func (c *Context) Contain(f func()) { c.sys.Contain(c.ac.Self().GetId(), f) }

// stopTimers keeps what the actor wanted to be told later from being a dead
// letter, and from holding the actor in memory.
func (c *Context) stopTimers() {
	for _, t := range c.timers {
		t.Stop()
	}
	c.timers = nil
}

// Origin is what the actor sends from now; the zero one where nobody traces.
func (c *Context) Origin() Origin {
	if c.sys.tracer.Load() == nil {
		return Origin{}
	}
	return Origin{c.ac.Self().GetId(), c.span}
}

// Correlate says which client request the message at hand belongs to, where
// the message itself does not know. It counts while somebody traces.
func (c *Context) Correlate(request uint64) {
	if c.span != 0 {
		c.correlation = request
	}
}

// Correlation is the client request that the message at hand belongs to; 0
// where there is none, or nobody traces.
func (c *Context) Correlation() uint64 { return c.correlation }

// Event records something that is no message: a transition, a signal, a
// lease. correlation 0 means that of the message at hand. It costs one atomic
// load where nobody traces.
func (c *Context) Event(kind, detail string, correlation uint64) {
	if t := c.sys.tracer.Load(); t != nil {
		if correlation == 0 {
			correlation = c.correlation
		}
		t.t.Event(&Event{Actor: c.ac.Self().GetId(), Kind: kind, Detail: detail, Correlation: correlation, Span: c.span})
	}
}

// Tracing reports whether somebody traces, for callers whose event detail
// costs something to build.
func (c *Context) Tracing() bool { return c.sys.tracer.Load() != nil }

func baseName(id string) string {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i] == '/' {
			return id[i+1:]
		}
	}
	return id
}
