package actors

import (
	"fmt"
	"strconv"

	"github.com/metamcp/metamcp/messages"
)

// A child is given so many calls at once; the others wait here, where it can be
// said whose turn it is. However many calls one client has made, another's next
// one is behind one call of each other client that waits, and a part of what the
// child is given is never one client's alone.

// DefaultInFlight is how many calls one instance of a server is given at once
// where its entry does not say.
const DefaultInFlight = 1024

// shares counts who has what of a child.
type shares struct {
	inflight map[uint64]int // by client, which is messages.Call.Of
	// served is when a client had its turn last, while others wait.
	served  map[uint64]uint64
	turns   uint64
	crowded bool // somebody waits for a share
}

func (s *shares) clear() {
	clear(s.inflight)
	s.rest()
}

// rest forgets the turns once nobody waits.
func (s *shares) rest() {
	if s.crowded || len(s.served) > 0 {
		s.crowded = false
		clear(s.served)
	}
}

func (s *shares) turn(client uint64) {
	if s.served == nil {
		s.served = map[uint64]uint64{}
	}
	s.turns++
	s.served[client] = s.turns
}

// window is how many calls the child is given at once, share how many of them one
// client may have. To a server at a URL no more are given than can be with it: what
// waited in the link would have no turns, and would not be looked at again before it is
// sent.
func (c *connection) window() (window, share int) {
	window = c.spec.MaxInFlight
	if window <= 0 {
		window = DefaultInFlight
	}
	if t := c.spec.Transport; t == messages.TransportHTTP || t == messages.TransportSSE {
		window = min(window, messages.RemoteInFlight)
	}
	return window, window - window/4
}

// enter and leave are the only ways into and out of the table of calls in flight.
func (c *connection) enter(p *pending) {
	c.inflight[p.call.ID] = p
	if c.shares.inflight == nil {
		c.shares.inflight = map[uint64]int{}
	}
	c.shares.inflight[p.call.Of()]++
	c.weights.enter(p)
}

func (c *connection) leave(call uint64) {
	p := c.inflight[call]
	if p == nil {
		return
	}
	delete(c.inflight, call)
	c.left.add(p.call)
	c.weights.leave(p)
	if c.shares.inflight[p.call.Of()]--; c.shares.inflight[p.call.Of()] <= 0 {
		delete(c.shares.inflight, p.call.Of())
	}
}

// fits says whether the child may be given the call now.
func (c *connection) fits(call *messages.Call) bool {
	window, share := c.window()
	if len(c.inflight) < window && c.shares.inflight[call.Of()] < share {
		own, all := c.weightFits(call)
		if own && all && (!c.weights.waiting || len(c.waiters) == 0 || c.light(call)) {
			return true
		}
	}
	c.crowd()
	return false
}

// crowd begins to keep the turns: who has calls there has had one.
func (c *connection) crowd() {
	if c.shares.crowded {
		return
	}
	c.shares.crowded = true
	for client := range c.shares.inflight {
		c.shares.turn(client)
	}
}

// nextWaiter is the place of the call that goes next among those that wait: the
// first that fits, of the client whose last turn is longest ago. Where its answer is
// too large for now, only calls with small ones go before it. -1: none fits.
func (c *connection) nextWaiter() int {
	window, share := c.window()
	if !c.shares.crowded && len(c.inflight)+len(c.waiters) <= window && len(c.inflight)+len(c.waiters) <= share && c.light(c.waiters[0]) {
		return 0 // all of them fit, as far as is known
	}
	c.crowd()
	c.weights.waiting = false
	if len(c.inflight) >= window {
		return -1
	}
	next, large := turnOf{at: -1}, turnOf{at: -1}
	var seen uint64 // the client that was looked at last
	for i, w := range c.waiters {
		if i > 0 && w.Of() == seen {
			continue
		}
		seen = w.Of()
		if c.shares.inflight[seen] >= share {
			continue
		}
		last := c.shares.served[seen]
		own, all := c.weightFits(w)
		switch {
		case !own:
		case !all:
			large.offer(i, last)
		default:
			next.offer(i, last)
		}
		if next.at >= 0 && next.last == 0 {
			break
		}
	}
	if large.at < 0 || next.at >= 0 && next.last <= large.last {
		return next.at
	}
	c.weights.waiting = true
	if next.at >= 0 && !c.light(c.waiters[next.at]) {
		return -1
	}
	return next.at
}

// turnOf is the place of a call that waits, and when its client had its last turn.
type turnOf struct {
	at   int
	last uint64
}

func (t *turnOf) offer(at int, last uint64) {
	if t.at < 0 || last < t.last {
		t.at, t.last = at, last
	}
}

// displace makes room for a call where all who may wait do: of the client that has
// most calls there, the newest is turned away. It reports false where that client
// has no more of them than the call's own would have.
func (c *connection) displace(call *messages.Call) bool {
	waiting := map[uint64]int{}
	most := call.Of()
	for _, w := range c.waiters {
		if waiting[w.Of()]++; waiting[w.Of()] > waiting[most] {
			most = w.Of()
		}
	}
	if waiting[most] <= waiting[call.Of()]+1 {
		return false
	}
	for i := len(c.waiters) - 1; i >= 0; i-- {
		if w := c.waiters[i]; w.Of() == most {
			c.waiters = append(c.waiters[:i:i], c.waiters[i+1:]...)
			c.refuseWaiting(w)
			break
		}
	}
	return true
}

// refuseWaiting turns a call away for which there is no room to wait.
func (c *connection) refuseWaiting(call *messages.Call) {
	c.handled++
	c.turnDown(call, &messages.Error{
		Code: messages.CodePoolSaturated, Server: c.spec.Name, Tool: call.Tool, Retryable: true,
		Message: strconv.Itoa(maxConnWaiters) + " calls already wait for " + strconv.Quote(c.spec.Name) + "; the call was not sent",
		Hint:    "Wait for running calls to finish, then call again with fewer calls at a time.",
	})
}

// busy is for a call whose time was over while others had what the child is given.
func (c *connection) busy(call *messages.Call) *messages.Error {
	own, most, clients := c.shares.inflight[call.Of()], 0, 0
	for client, n := range c.shares.inflight {
		if client != call.Of() {
			most = max(most, n)
			clients++
		}
	}
	window, share := c.window()
	return &messages.Error{
		Code: messages.CodeExecutionTimeout, Server: c.spec.Name, Tool: call.Tool, Class: messages.ClassOffline, Retryable: true,
		Message: fmt.Sprintf("%q was busy for all the time that the call allowed: it has %d calls in flight, %d of them of this client, the others of %d more, of which one has %d; the call was not sent",
			c.spec.Name, len(c.inflight), own, clients, most),
		Hint: fmt.Sprintf("Call again later or with a longer timeoutMs; running calls can be cancelled. It is given %d calls at once, %d of one client at most; maxInFlight of its entry sets that.", window, share),
	}
}
