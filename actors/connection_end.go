package actors

import (
	"context"
	"errors"
	"io"
	"sort"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

type exitDue struct{ run uint64 }

// onEOF and onExited are the two halves of a child's end. The answers that it
// wrote before it died come first, so a failure is declared at EOF; a child
// that exited while a grandchild holds its stdout, or that closed its stdout
// and lives on, is given a moment for the other half.
func (c *connection) onEOF(ctx *kernel.Context, m *runEOF) {
	r := c.run
	if r == nil || m.run != r.n || r.eof {
		return
	}
	r.eof, r.eofErr = true, m.err
	c.halfGone(ctx)
}

func (c *connection) onExited(ctx *kernel.Context, m *runExited) {
	r := c.run
	if r == nil || m.run != r.n || r.exit != nil {
		return
	}
	r.exit = m.exit
	c.gauge.Exited()
	if ctx.Tracing() {
		ctx.Event("exit", exitText(m.exit), 0)
	}
	if r.ending {
		c.look()
		return
	}
	c.halfGone(ctx)
}

func (c *connection) halfGone(ctx *kernel.Context) {
	r := c.run
	if r.ending {
		return
	}
	if r.eof && r.exit != nil {
		c.lost(ctx)
		return
	}
	if r.after == nil {
		r.after = ctx.After(exitGrace, &exitDue{r.n})
	}
}

func (c *connection) onExitDue(ctx *kernel.Context, m *exitDue) {
	if c.run == nil || m.run != c.run.n || c.run.ending {
		return
	}
	c.lost(ctx)
}

// lost declares the child dead with what is known of its end.
func (c *connection) lost(ctx *kernel.Context) {
	r := c.run
	if told := evident(nil); errors.As(r.eofErr, &told) {
		c.fail(ctx, told.Evidence()) // a server without a process
		return
	}
	ev := messages.Evidence{Exit: r.exit, EOF: r.eof}
	if !errors.Is(r.eofErr, io.EOF) {
		ev.Err = r.eofErr // more telling than that the stream is over
	}
	if r.exit == nil && r.link != nil {
		ev.Exit = &messages.Exit{Lives: true, Stderr: c.said()}
	}
	c.fail(ctx, ev)
}

// fail takes the connection out of service after a failure nobody asked for:
// FAILED, or CLOSED where it was idle, since the machine has no way from IDLE
// to FAILED. Its calls go back to the breaker, which knows what may be
// repeated, and its process tree is ended.
func (c *connection) fail(ctx *kernel.Context, ev messages.Evidence) {
	idle := c.state == messages.StateIdle
	e := supervision.EventLost
	if idle {
		e = supervision.EventClose
	}
	if !c.to(ctx, e) {
		return
	}
	started := c.ready
	ev.Remote = ev.Remote || c.spec.URL != ""
	ev.Starting, ev.Limits = !started, c.spec.Limits
	if ev.Exit == nil {
		ev.Log = c.said() // one that hangs has often said why
	}
	ctx.Send(c.parent, &messages.ConnectionFailed{
		Instance: c.instance, Evidence: ev, Started: started, Returned: c.takeCalls(),
	})
	c.endRun(ctx)
}

// said is what the child wrote to stderr last.
func (c *connection) said() []string {
	if c.run == nil || c.run.link == nil {
		return nil
	}
	return c.run.link.Stderr()
}

// takeCalls empties the tables: what was given to the link in the order in which it was,
// then what waited.
func (c *connection) takeCalls() []messages.ReturnedCall {
	out := make([]messages.ReturnedCall, 0, len(c.inflight)+len(c.waiters))
	unsent := c.retract()
	for _, p := range c.inflight {
		c.forgetAsks(c.ctx, p, "the server is gone")
		c.giveUp(p.call)
		// One that the child has asked for input was with it before.
		out = append(out, messages.ReturnedCall{Call: p.call, Written: p.round > 0 || !unsent[p.call.ID]})
	}
	c.asks.drop()
	sort.Slice(out, func(i, j int) bool { return out[i].Call.ID < out[j].Call.ID })
	for _, w := range c.waiters {
		out = append(out, messages.ReturnedCall{Call: w})
	}
	c.handled += uint64(len(out))
	clear(c.inflight)
	c.shares.clear()
	c.weights.clear()
	c.waiters = nil
	return out
}

// retract takes back what the child has not been sent, by the ids of the requests.
func (c *connection) retract() map[uint64]bool {
	if len(c.inflight) == 0 || c.run == nil || c.run.link == nil {
		return nil
	}
	unsent := map[uint64]bool{}
	for _, raw := range c.run.link.Retract() {
		if id, ok := messages.ParseRequestID(raw); ok {
			unsent[id] = true
		}
	}
	return unsent
}

// onClose ends the connection for good.
func (c *connection) onClose(ctx *kernel.Context, m *messages.Close) {
	if !c.to(ctx, supervision.EventClose) {
		return
	}
	if ctx.Tracing() {
		ctx.Event("close", m.Reason, 0)
	}
	for _, rc := range c.takeCalls() {
		if m.Err == nil && !rc.Written {
			ctx.Send(c.parent, &messages.CallReturned{Instance: c.instance, Call: rc.Call})
			continue
		}
		err := m.Err
		if err == nil {
			err = supervision.Cancelled(rc.Call)
		}
		own := *err
		own.Server, own.Tool = c.spec.Name, rc.Call.Tool
		if !rc.Written {
			c.turnDown(rc.Call, &own)
			continue
		}
		own.Message = "the server was ended before it answered (" + m.Reason + "); whether the call took effect is unknown"
		own.Hint = "Check what the call may have done before you repeat it."
		own.Retryable = false
		c.answer(rc.Call, &messages.Answer{Err: &own})
	}
	c.endRun(ctx)
}

// endRun starts the ladder for the process tree, once.
func (c *connection) endRun(ctx *kernel.Context) {
	if c.ready {
		c.gauge.Turn()
		ctx.Send(c.deps.notices, &childGone{server: c.spec.Name, instance: c.instance})
	}
	c.watch.listen.due.Stop()
	c.ready, c.watch = false, watching{}
	c.timer.Stop()
	c.gen++
	c.wake = time.Time{}
	c.ping.Stop()
	c.ping = nil
	c.health.Stop()
	c.healthGen++
	clear(c.internal)
	c.asides = nil
	if c.listing != nil {
		c.listing.due.Stop()
		c.listing = nil
	}
	c.relist.stop()
	c.relist = relisting{}
	r := c.run
	if r == nil || r.gone {
		c.afterGone(ctx)
		return
	}
	r.startup.Stop()
	r.probe.Stop()
	r.after.Stop()
	if r.ending {
		return
	}
	r.ending = true
	if r.link == nil {
		return // onLaunched goes on
	}
	c.climb(ctx)
}

// climb takes the current rung of the ladder in a worker, since signalling a
// tree and looking for it reads the process table.
func (c *connection) climb(ctx *kernel.Context) {
	r := c.run
	steps := supervision.Ladder(c.spec.StopGrace)
	// Killed and still there: uninterruptible in the kernel, or forking faster
	// than it is found. It is killed again until it is gone; the place stays
	// taken meanwhile.
	step := steps[min(r.step, len(steps)-1)]
	if ctx.Tracing() {
		ctx.Event("ladder", step.Do.String(), 0)
	}
	link, sys, self, n, i := r.link, c.sys, c.self, r.n, r.step
	r.looking, r.exitSeen = true, r.exit != nil
	sys.Go(func(wctx context.Context) {
		switch step.Do {
		case supervision.MoveCloseInput:
			link.CloseInput()
		case supervision.MoveTerminate:
			link.Signal(messages.SignalTerminate)
		case supervision.MoveKill:
			link.Signal(messages.SignalKill)
		case supervision.MoveLook:
		}
		alive := step.Do == supervision.MoveCloseInput || link.TreeAlive()
		// A tree that forks is gone when two looks in a row find nothing.
		gone := 0
		for end := time.Now().Add(killLook); step.Do == supervision.MoveKill && gone < 2 && time.Now().Before(end); {
			if alive {
				link.Signal(messages.SignalKill)
			}
			waitALittle(wctx)
			if alive = link.TreeAlive(); alive {
				gone = 0
			} else {
				gone++
			}
		}
		sys.Send(self, &runStep{run: n, step: i, alive: alive})
	}, func(any) { sys.Send(self, &runStep{run: n, step: i, alive: true}) })
}

func (c *connection) onStep(ctx *kernel.Context, m *runStep) {
	r := c.run
	if r == nil || m.run != r.n || r.gone {
		return
	}
	r.looking = false
	if !m.alive && r.exit != nil {
		c.release()
		return
	}
	switch {
	case m.step != lookStep:
		steps := supervision.Ladder(c.spec.StopGrace)
		wait := stuckLook
		if m.step < len(steps)-1 {
			wait = steps[m.step].Wait
		}
		r.rung = ctx.After(wait, &ladderDue{run: r.n, step: m.step})
	case r.step >= len(supervision.Ladder(c.spec.StopGrace)):
		r.rung = ctx.After(stuckLook, &ladderDue{run: r.n, step: r.step})
	}
	if r.exitSeen != (r.exit != nil) {
		r.exitSeen = r.exit != nil
		c.look() // the leader went while the worker looked
	}
}

// lookStep marks a look outside the ladder; stuckLook is the distance between
// looks at a tree that survived SIGKILL.
const (
	lookStep  = -1
	stuckLook = time.Second
	// killLook is how long the killer itself watches: the kernel needs some
	// milliseconds for what got SIGKILL.
	killLook = 500 * time.Millisecond
)

// look asks whether the tree is gone, outside the ladder's own steps: the
// leader has exited, and mostly that was all of it.
func (c *connection) look() {
	r := c.run
	if r.looking || r.link == nil || r.gone {
		return
	}
	r.looking, r.exitSeen = true, r.exit != nil
	link, sys, self, n := r.link, c.sys, c.self, r.n
	sys.Go(func(context.Context) {
		sys.Send(self, &runStep{run: n, step: lookStep, alive: link.TreeAlive()})
	}, func(any) { sys.Send(self, &runStep{run: n, step: lookStep, alive: true}) })
}

func (c *connection) onLadderDue(ctx *kernel.Context, m *ladderDue) {
	r := c.run
	if r == nil || m.run != r.n || r.gone || m.step != r.step {
		return
	}
	r.rung = nil
	r.step++
	c.climb(ctx)
}

// release frees what the run holds, in a worker since it waits for the run's
// goroutines.
func (c *connection) release() {
	r := c.run
	if r.gone {
		return
	}
	r.gone = true
	r.rung.Stop()
	link, sys, self, n := r.link, c.sys, c.self, r.n
	sys.Go(func(context.Context) {
		link.Release()
		sys.Send(self, &runGone{run: n})
	}, func(any) { sys.Send(self, &runGone{run: n}) })
}

func (c *connection) onGone(ctx *kernel.Context, m *runGone) {
	if c.run != nil && m.run == c.run.n {
		c.afterGone(ctx)
	}
}

// afterGone is where a run has left nothing behind.
func (c *connection) afterGone(ctx *kernel.Context) {
	c.run = nil
	c.gauge.PID.Store(0)
	switch c.state {
	case messages.StateFailed:
		ctx.Send(c.parent, &messages.ConnectionEnded{Instance: c.instance})
	case messages.StateClosed:
		// The breaker stops this actor once it has heard: what it sent before
		// then still comes back.
		ctx.Send(c.parent, &messages.ConnectionClosed{Instance: c.instance})
	case messages.StateIdle, messages.StateConnecting, messages.StateActive:
	}
}

func exitText(e *messages.Exit) string {
	if e.Signal != "" {
		return "signal " + e.Signal
	}
	return "status " + strconv.Itoa(e.Code)
}

func waitALittle(ctx context.Context) {
	const between = 20 * time.Millisecond
	t := time.NewTimer(between)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
