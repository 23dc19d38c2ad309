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
//
// A call that comes after the child announced a change waits until a listing
// that began after the announcement was compared. One that came before goes with
// an earlier verdict, so that a child which announces changes all the time holds
// nobody up for ever.
type gate struct {
	announced uint64 // changes of the list, of which the start of the run is the first
	vetted    uint64 // of them are in listings that were compared
	judging   []judging
	timer     *kernel.Timer

	former uint64            // the last verdict of the run before
	listed *messages.Toolset // what this very child lists, as far as it was compared
	by     messages.Accepted // with this
	review *messages.Review  // what came of it
}

// judging is a listing that the index has and has not compared yet.
type judging struct {
	verdict   uint64 // its number
	announced uint64 // changes that are in it
}

type judgeDue struct{ verdict uint64 }

// reset is for a new run, of which nothing is known; former is the last verdict of
// the run before.
func (g *gate) reset(former uint64) {
	g.timer.Stop()
	*g = gate{announced: 1, former: former}
}

// gated reports whether a call has to wait.
func (c *connection) gated(call *messages.Call) bool {
	return c.deps.holding() && call.Needs > c.gate.vetted
}

// judge is told of each listing that goes to the index. It returns the number of
// the verdict on it.
func (c *connection) judge(ctx *kernel.Context, l *listing) uint64 {
	g := &c.gate
	c.verdicts++
	if !c.deps.holding() {
		g.vetted = max(g.vetted, l.announced) // the index looks at it anew should that change
		return c.verdicts
	}
	if g.vetted >= l.announced {
		return c.verdicts // no call waits for it
	}
	g.judging = append(g.judging, judging{c.verdicts, l.announced})
	g.timer.Stop()
	g.timer = ctx.After(judgePatience, &judgeDue{c.verdicts})
	return c.verdicts
}

func (c *connection) onJudged(ctx *kernel.Context, m *messages.Judged) {
	g := &c.gate
	if m.Verdict <= g.former {
		return // of an earlier run
	}
	if m.Listed != nil {
		g.listed, g.by = m.Listed, nil
	}
	c.judged(ctx, m)
	if c.relist.verdict == m.Verdict {
		c.relist.judged()
		if m.Fault && c.relist.refused() { // what the index itself fails at is not for it again
			c.relist.again = true
		}
		c.verdictOver(ctx)
	}
}

// judged deals with the calls that waited for a verdict.
func (c *connection) judged(ctx *kernel.Context, m *messages.Judged) {
	g := &c.gate
	if len(g.judging) == 0 || m.Verdict != g.judging[0].verdict {
		return // nobody waits for it
	}
	announced := g.judging[0].announced
	if g.judging = g.judging[1:]; len(g.judging) == 0 {
		g.timer.Stop()
	}
	if m.Err != nil {
		c.refuseGated(ctx, m.Err)
		return
	}
	g.vetted = max(g.vetted, announced)
	c.serveWaiters(ctx)
}

func (c *connection) onJudgeDue(ctx *kernel.Context, m *judgeDue) {
	if n := len(c.gate.judging); n == 0 || m.verdict != c.gate.judging[n-1].verdict {
		return
	}
	c.gate.judging = nil
	c.refuseGated(ctx, c.notJudged("they were not compared with what the user has accepted within "+judgePatience.String()))
}

// gateFailed deals with calls that waited for a listing which failed.
func (c *connection) gateFailed(ctx *kernel.Context, why string) {
	if c.ready && c.deps.holding() && len(c.gate.judging) == 0 {
		c.refuseGated(ctx, c.notJudged("it did not list them: "+why))
	}
}

func (c *connection) notJudged(why string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeConnection, Server: c.spec.Name, Class: messages.ClassOther, Retryable: true,
		Message: "the tools of " + strconv.Quote(c.spec.Name) + " are held back (trust.pins): " + why + "; the call was not sent",
		Hint:    "Try again; if it stays so, the log of the server or of the host may say more.",
	}
}

// notJudgedInTime is for a call whose time was over while it waited for a verdict.
func (c *connection) notJudgedInTime(call *messages.Call) *messages.Error {
	err := c.notJudged("they were not compared with what the user has accepted in the time that the call allowed")
	err.Code, err.Tool, err.Class = messages.CodeExecutionTimeout, call.Tool, messages.ClassOffline
	err.Hint = "Call again in a moment, or with a longer timeoutMs; if it stays so, the log of the server or of the host may say more."
	return err
}

// refuseGated answers those that wait for a verdict which does not come. The others wait
// for their turn alone, and have it: where tools are not held back any more that is all.
func (c *connection) refuseGated(ctx *kernel.Context, err *messages.Error) {
	c.refuseSome(ctx, err, c.gated)
	c.serveWaiters(ctx)
}

// onTurnAway answers calls of a client for which no place is waited for any more. A client
// that has none waited for the server's tools, and may have been the last for whom the start
// is.
func (c *connection) onTurnAway(ctx *kernel.Context, m *messages.TurnAway) {
	if m.Contact || !c.refuseSome(ctx, m.Err, func(w *messages.Call) bool { return w.Of() == m.Client && !w.Since.After(m.Before) }) {
		c.stillIdle(ctx)
	}
}

// refuseSome answers those of the calls that wait which are chosen; false: none was.
func (c *connection) refuseSome(ctx *kernel.Context, err *messages.Error, chosen func(w *messages.Call) bool) bool {
	kept := c.waiters[:0]
	for _, w := range c.waiters {
		if !chosen(w) {
			kept = append(kept, w)
			continue
		}
		own := *err
		own.Tool = w.Tool
		c.handled++
		c.turnDown(w, &own)
	}
	some := len(kept) < len(c.waiters)
	clear(c.waiters[len(kept):])
	c.waiters = kept
	if some {
		c.stillIdle(ctx)
	}
	return some
}

// listForGate lists at once where nothing that is under way would let the last
// waiter go: the pause before the listing of a changed list is not for calls. They
// wait until the index is done with the listing before.
func (c *connection) listForGate(ctx *kernel.Context) {
	if !c.ready || c.listing != nil || c.relist.verdict != 0 || len(c.waiters) == 0 {
		return
	}
	last := c.waiters[len(c.waiters)-1]
	if !c.gated(last) || len(c.gate.judging) > 0 && c.gate.judging[len(c.gate.judging)-1].announced >= last.Needs {
		return
	}
	c.list(ctx)
}

// vet is the verdict on a call that the child is about to get; nil: it may go. Where tools
// are held back the catalog's listing is not all: it is one for all instances of a server,
// and this child may list something else. Its tool has to be the accepted one, too.
func (c *connection) vet(call *messages.Call) *messages.Error {
	if err := c.deps.vet(call); err != nil {
		return err
	}
	if !c.deps.holding() {
		return nil
	}
	g, accepted := &c.gate, c.deps.accepted(c.spec.Name)
	if !call.OfTool() || g.listed == nil || accepted == nil || !accepted.Pinned() {
		return nil
	}
	if g.by != accepted {
		g.by = nil
		c.ctx.Contain(func() { g.review, g.by = accepted.Review(g.listed, messages.PinsHold), accepted })
		if g.by == nil {
			err := c.notJudged("comparing them with what the user has accepted broke inside metamcp")
			err.Tool = call.Tool
			return err
		}
	}
	if review := g.review.Of(call.Tool); review != nil && review.Held {
		return toolHeld(call, review)
	}
	return nil
}

// sendVetted gives a call to the child unless its tool is closed by now.
func (c *connection) sendVetted(ctx *kernel.Context, call *messages.Call) {
	if err := c.vet(call); err != nil {
		c.handled++
		c.turnDown(call, err)
		c.stillIdle(ctx)
		return
	}
	c.send(ctx, call)
}
