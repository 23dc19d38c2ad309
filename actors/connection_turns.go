package actors

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// holdAsk keeps a request until only one client's calls are left.
func (c *connection) holdAsk(ctx *kernel.Context, f *messages.Frame) {
	c.asks.held = append(c.asks.held, f)
	if len(c.asks.held) == 1 {
		c.asks.gen++
		c.asks.timer = ctx.After(holdPatience, &heldAskDue{c.asks.gen})
	}
}

func (c *connection) onHeldAskDue(ctx *kernel.Context, m *heldAskDue) {
	if m.gen != c.asks.gen {
		return
	}
	held := c.asks.held
	c.asks.held = nil
	for _, f := range held {
		c.refuseAsk(ctx, f, rpcRefused, "calls of several clients are in flight, and nothing tells which of them this is asked for; it works when the call is made again")
	}
}

// settleHeld asks what was held back once it is clear whom.
func (c *connection) settleHeld(ctx *kernel.Context) {
	if _, several := c.callOf(&messages.Frame{}); several {
		return
	}
	held := c.asks.held
	c.asks.held = nil
	c.asks.timer.Stop()
	c.asks.gen++
	for _, f := range held {
		c.onAsk(ctx, f)
	}
}

// itsTurn says whether a call to a server that asks may go to the child now: what
// the child has is of the same client.
func (c *connection) itsTurn(call *messages.Call) bool {
	for _, p := range c.inflight {
		if !sameClient(p.call, call) {
			return false
		}
	}
	return true
}

// nextTurn follows the end of a call: what was held back is asked, and those go on
// whose turn has come.
func (c *connection) nextTurn(ctx *kernel.Context) {
	if len(c.asks.held) > 0 {
		c.settleHeld(ctx)
	}
	if len(c.waiters) == 0 {
		c.shares.rest()
		return
	}
	if !c.ready || !c.asker.Load() && !c.shares.crowded {
		return
	}
	c.serveWaiters(ctx)
}

const (
	// turnWord is after how long a call that waits for its turn is told why, and one whose
	// progress is not to be told that it goes on.
	turnWord = 5 * time.Second
	// othersPatience is how long a question may be open at a server that others
	// wait for.
	othersPatience = time.Minute
)

// turnDue says that those who wait for their turn are to be looked after.
type turnDue struct{ gen uint64 }

// lookAfterTurns sets the alarm for calls that wait while a client is being asked.
func (c *connection) lookAfterTurns(ctx *kernel.Context) {
	if c.asks.turn != nil || len(c.asks.open) == 0 || len(c.waiters) == 0 || !c.asker.Load() {
		return
	}
	c.asks.turnGen++
	c.asks.turn = ctx.After(turnWord, &turnDue{c.asks.turnGen})
}

// onTurnDue tells those who wait why they do, and takes back questions that hold
// them up for too long.
func (c *connection) onTurnDue(ctx *kernel.Context, m *turnDue) {
	if m.gen != c.asks.turnGen {
		return
	}
	c.asks.turn = nil
	now := time.Now()
	for _, a := range c.overstayed(now) {
		why := "other clients wait for this server, and a question may hold them up for " + othersPatience.String() + " at most"
		c.withdraw(a.p, []*messages.Question{a.q}, why)
		c.onAnswered(ctx, &messages.QuestionAnswer{Question: a.q.ID, Error: rpcError(rpcRefused, "the client did not answer "+a.q.Method+" in time: "+why)})
	}
	for _, w := range c.waiters {
		if w.Progress != nil && !c.itsTurn(w) {
			if params := waitingProgress(&w.Told, "this server is asking another client something"); params != nil {
				c.progress(w, params)
			}
		}
	}
	c.lookAfterTurns(ctx)
}

// waitingProgress says why a call waits, above what was told before: a client that gives a
// call new time with each progress does not give it up meanwhile. nil: there is no way to.
func waitingProgress(told *messages.Told, why string) json.RawMessage {
	return aboveProgress(told, []byte(strconv.Quote("waiting: "+why)))
}

// aboveProgress is progress with a message, JSON, that counts no more than it has to.
// nil: nothing is above what was told.
func aboveProgress(told *messages.Told, message []byte) json.RawMessage {
	value, ok := told.Next()
	if !ok {
		return nil
	}
	told.Add(value)
	params := strconv.AppendFloat([]byte(`{"progress":`), value, 'g', -1, 64)
	params = append(append(params, `,"message":`...), message...)
	return append(params, '}')
}

// overstayed are the questions that have been open for too long while calls of
// others wait.
func (c *connection) overstayed(now time.Time) (list []*ask) {
	for _, a := range c.asks.open {
		if now.Sub(a.since) < othersPatience {
			continue
		}
		for _, w := range c.waiters {
			if !sameClient(w, a.p.call) {
				list = append(list, a)
				break
			}
		}
	}
	return list
}

// noTurn is for a call whose time is over while the child works for another client.
func (c *connection) noTurn(w *messages.Call) *messages.Error {
	what := "it works for another client, and only for one at a time since it asks its clients things"
	if len(c.asks.open) > 0 {
		what = "another client is being asked something by it"
	}
	return &messages.Error{
		Code: messages.CodeExecutionTimeout, Server: c.spec.Name, Tool: w.Tool, Retryable: true,
		Message: strconv.Quote(c.spec.Name) + " did not come to this call in the time that it allowed: " + what + "; the call was not sent",
		Hint:    "Call again later or with a longer timeoutMs. The user can give each client an instance of its own with \"scope\": \"session\" in the server's entry, or several instances with \"maxInstances\".",
	}
}
