package actors

import (
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// judgePatience is how long calls wait for the verdict on a listing. It takes
// milliseconds where nothing is broken.
const judgePatience = 30 * time.Second

// gate keeps calls from a child whose tools nobody has compared yet with those
// that a person accepted. It is open where tools are not held back.
type gate struct {
	vetted  bool // a listing of this run was compared
	judging int  // listings that the index has and has not compared
	timer   *kernel.Timer
}

type judgeDue struct{ run uint64 }

// close is for a new run, of which nothing is known.
func (g *gate) close() {
	g.timer.Stop()
	*g = gate{}
}

// gated reports whether calls wait: for the verdict on the first listing of a
// run, and while a list that the child said had changed is read and compared.
func (c *connection) gated() bool {
	return c.deps.holding() && (!c.gate.vetted || c.gate.judging > 0 || c.listing != nil && c.listing.changed)
}

// judge is told of each listing that goes to the index. It returns the run that
// waits for the verdict; 0: none does.
func (c *connection) judge(ctx *kernel.Context, l *listing) uint64 {
	g := &c.gate
	if !c.deps.holding() {
		g.vetted = true // the index looks at it anew should that change
		return 0
	}
	if g.vetted && !l.changed {
		return 0
	}
	g.judging++
	g.timer.Stop()
	g.timer = ctx.After(judgePatience, &judgeDue{c.run.n})
	return c.run.n
}

func (c *connection) onJudged(ctx *kernel.Context, m *messages.Judged) {
	g := &c.gate
	if c.run == nil || m.Run != c.run.n || g.judging == 0 {
		return
	}
	if g.judging--; g.judging == 0 {
		g.timer.Stop()
	}
	switch {
	case m.Err == nil:
		g.vetted = true
	case !g.vetted && g.judging == 0:
		c.refuseWaiters(ctx, m.Err)
		return
	}
	c.serveWaiters(ctx)
}

func (c *connection) onJudgeDue(ctx *kernel.Context, m *judgeDue) {
	if c.run == nil || m.run != c.run.n || c.gate.judging == 0 {
		return
	}
	c.gate.judging, c.gate.vetted = 0, false
	c.refuseWaiters(ctx, c.notJudged("they were not compared with what the user has accepted within "+judgePatience.String()))
}

// gateFailed deals with calls that waited for a listing which failed.
func (c *connection) gateFailed(ctx *kernel.Context, l *listing, why string) {
	switch {
	case !c.ready || !c.deps.holding():
	case c.gate.vetted && l.changed:
		c.serveWaiters(ctx) // what was compared before still holds
	case !c.gate.vetted && c.gate.judging == 0:
		c.refuseWaiters(ctx, c.notJudged("it did not list them: "+why))
	}
}

func (c *connection) notJudged(why string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeConnection, Server: c.spec.Name, Class: messages.ClassOther, Retryable: true,
		Message: "the tools of " + strconv.Quote(c.spec.Name) + " are held back (trust.pins): " + why + "; the call was not sent",
		Hint:    "Try again; if it stays so, the log of the server or of the host may say more.",
	}
}

// refuseWaiters answers those that wait, none of which the child has seen.
func (c *connection) refuseWaiters(ctx *kernel.Context, err *messages.Error) {
	waiting := c.waiters
	c.waiters = nil
	for _, w := range waiting {
		own := *err
		own.Tool = w.Tool
		c.handled++
		c.answer(w, &messages.Answer{Err: &own})
	}
	if len(waiting) > 0 && c.state == messages.StateIdle && c.ready {
		c.tellIdle(ctx) // the breaker has counted the calls
	}
}

// listForGate lists again where a listing that calls wait for has failed.
func (c *connection) listForGate(ctx *kernel.Context) {
	if c.ready && c.gated() && c.listing == nil && c.gate.judging == 0 {
		c.list(ctx)
	}
}

// sendVetted gives a call to the child unless its tool is held back by now.
func (c *connection) sendVetted(ctx *kernel.Context, call *messages.Call) {
	if c.deps.holding() {
		if err := c.deps.vet(call); err != nil {
			c.handled++
			c.answer(call, &messages.Answer{Err: err})
			if c.state == messages.StateIdle {
				c.tellIdle(ctx) // the breaker has counted the call
			}
			return
		}
	}
	c.send(ctx, call)
}
