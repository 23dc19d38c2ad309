package actors

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// listening is the subscription of a modern child. Another one takes its place once
// the child has acknowledged that, and not before: what is refused then costs nobody
// what he has, and nothing that is told meanwhile is lost. What is told in the time
// in which both are there may come twice.
type listening struct {
	in    listen // the one that is in force
	acked bool   // the child acknowledged it
	empty bool   // and grants nothing of what was asked for
	once  bool   // one that grants something was acknowledged since the start of the child

	next  listen          // the one that is to take its place
	trial trial           // what that is for
	why   json.RawMessage // the whole was refused
	fresh []*pending      // subscribers for whom that is
	queue []*pending      // subscribers that wait for a later one
	// most is how many subscribers the next one is for: a child that refuses a
	// subscription for several does not say whose resource it has not. 0: for all.
	most   int
	excess bool // a resource was given up that the one in force still has

	missing bool          // none is in force, and one should be
	since   time.Time     // when the last one was that came to be
	pause   time.Duration // before the next one, from then on; 0: none
	due     *kernel.Timer // the end of that; nil: there is none
	gen     uint64
	unheard bool          // the child may have told of a change of its lists while nobody listened
	overdue *kernel.Timer // when its acknowledgement is not waited for any more to look for that; nil: it is not
}

// listen is a request that subscribes; 0: none.
type listen uint64

type listenDue struct{ run, gen uint64 }

// steadyListen is how long a subscription was there that is not taken for one which ends
// at once each time.
const steadyListen = 5 * time.Second

// trial is what a subscription is for that is to take the place of another. A child
// that refuses the whole does not say whether that is for the resource that is new,
// for one that it granted before and has no more, or since they are too many.
type trial uint8

const (
	whole  trial = iota // what is subscribed to, and what is so afresh
	former              // what is subscribed to, since the whole was refused
	alone               // what is so afresh, since that was refused, too
)

// listenedTo is what a subscription asks for, or grants.
type listenedTo struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

// Why a modern child's subscription is refused where the child itself has not said so.
const (
	noSubscriptions = "this server has no subscriptions to resources"
	notGranted      = "the server does not grant a subscription to this resource"
	notAcknowledged = "the server ended the subscription before it acknowledged it"
)

// listens says whether there is anything to subscribe to at a modern child.
func (c *connection) listens() bool {
	return c.hs.era == messages.EraModern && (c.hs.offers.Has(messages.OffersChanges) || c.watch.any())
}

// listen opens the subscription of a modern child where none is in force.
func (c *connection) listen(ctx *kernel.Context) {
	l := &c.watch.listen
	l.due.Stop()
	l.due = nil
	l.missing, l.acked, l.empty, l.excess = false, false, false, false
	if c.listens() {
		l.since = time.Now()
		l.in = c.askToListen(ctx, c.watch.all())
		c.awaitAcknowledgement(ctx)
	}
}

// askToListen asks for changes of the lists and of resources.
func (c *connection) askToListen(ctx *kernel.Context, uris []string) listen {
	ask := listenedTo{Tools: c.hs.offers.Has(messages.OffersTools), Prompts: c.hs.offers.Has(messages.OffersPrompts), Resources: c.hs.offers.Has(messages.OffersResources)}
	slices.Sort(uris)
	ask.URIs = slices.Compact(uris)
	params, err := json.Marshal(map[string]any{"notifications": ask})
	if err != nil {
		return 0 // strings and booleans always can be written
	}
	return listen(c.request(ctx, methodListen, params, c.onListenOver))
}

// unlisten ends a subscription.
func (c *connection) unlisten(ctx *kernel.Context, id listen, why string) {
	if id == 0 {
		return
	}
	delete(c.internal, uint64(id))
	c.sendInternal(ctx, cancelledLine(uint64(id), why))
}

// knowsSubscription answers a subscription to a resource of a modern child where
// that need not be asked: it has none, or this one.
func (c *connection) knowsSubscription(ctx *kernel.Context, call *messages.Call) bool {
	if call.Method != methodSubscribe || c.hs.era != messages.EraModern {
		return false
	}
	a := &messages.Answer{}
	if !c.hs.offers.Has(messages.OffersSubscriptions) {
		a.RPCError = rpcError(rpcNoMethod, noSubscriptions)
	} else if _, ok := c.watch.uris[uriOf(call)]; ok {
		a.Result = json.RawMessage(`{}`)
	} else {
		return false
	}
	c.handled++
	c.answer(call, a)
	c.stillIdle(ctx)
	return true
}

// subscribes takes up a subscription to a resource of a modern child, which has no
// request for that alone: the call is answered once one for all is acknowledged.
func (c *connection) subscribes(ctx *kernel.Context, p *pending) {
	l := &c.watch.listen
	p.away = true
	l.queue = append(l.queue, p)
	c.listenOn(ctx)
}

// listenOn does what is next to be done for the subscription of a modern child.
func (c *connection) listenOn(ctx *kernel.Context) {
	l := &c.watch.listen
	if !c.ready {
		return
	}
	if len(l.fresh) > 0 {
		if slices.ContainsFunc(l.fresh, c.waitsFor) {
			return // the child's word on those comes first
		}
		c.unlisten(ctx, l.next, "nobody waits for the subscription any more")
		l.fresh, l.next = nil, 0
	}
	l.queue = slices.DeleteFunc(l.queue, func(p *pending) bool { return !c.waitsFor(p) })
	switch {
	case len(l.queue) > 0, l.excess && l.in != 0:
		c.replaceListen(ctx)
	case l.missing && l.due == nil:
		c.unlisten(ctx, l.next, "another subscription takes its place") // for fewer resources, as this one is
		l.next = 0
		c.reopen(ctx)
	}
}

// waitsFor says whether a call is still with the child.
func (c *connection) waitsFor(p *pending) bool { return c.inflight[p.call.ID] == p }

// replaceListen asks for the subscription that takes the place of the one in force.
func (c *connection) replaceListen(ctx *kernel.Context) {
	l := &c.watch.listen
	n := len(l.queue)
	if l.most > 0 {
		n = min(n, l.most)
	}
	l.fresh = slices.Clone(l.queue[:n])
	l.queue = slices.Delete(l.queue, 0, n)
	l.excess = false
	l.due.Stop()
	l.due = nil
	before := l.next // for fewer resources, which this one is as well
	l.next = 0
	if n > 0 || c.listens() {
		l.trial = whole
		uris := c.watch.all()
		for _, p := range l.fresh {
			uris = append(uris, uriOf(p.call))
		}
		l.next = c.askToListen(ctx, uris)
	} else {
		c.unlisten(ctx, l.in, "nobody is subscribed any more")
		l.in = 0
	}
	c.unlisten(ctx, before, "another subscription takes its place")
}

// onListening hears that a subscription is there, and what of it is granted.
func (c *connection) onListening(ctx *kernel.Context, f *messages.Frame) {
	l := &c.watch.listen
	var p struct {
		Meta struct {
			ID json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		} `json:"_meta"`
		Granted *listenedTo `json:"notifications"`
	}
	if json.Unmarshal(f.Params, &p) != nil {
		p.Granted = nil // it says that it listens, but not to what
	}
	id := l.named(p.Meta.ID, f.Related)
	empty := p.Granted != nil && !p.Granted.Tools && !p.Granted.Prompts && !p.Granted.Resources && len(p.Granted.URIs) == 0
	var fresh, refused []*pending
	switch {
	case id == 0:
		return
	case id == l.next && empty && l.in != 0: // the one in force may have something
		c.unlisten(ctx, l.next, "it grants nothing")
		c.refuseListen(ctx, rpcError(rpcInvalidParams, notGranted))
		return
	case id == l.next:
		c.unlisten(ctx, l.in, "another subscription takes its place")
		switch fresh = l.fresh; {
		case l.trial == former:
			fresh, refused = nil, fresh
		case l.trial == alone && p.Granted == nil:
			p.Granted = &listenedTo{URIs: []string{uriOf(fresh[0].call)}} // what was not asked for is not there
		}
		l.in, l.next, l.fresh, l.missing, l.since = id, 0, nil, false, time.Now()
		if l.most = min(2*l.most, maxInFlight); len(l.queue) == 0 {
			l.most = 0
		}
	case id != l.in:
		return
	}
	l.acked, l.once, l.empty = true, l.once || !empty, empty
	l.overdue.Stop()
	l.overdue = nil
	if l.unheard {
		l.unheard = false
		c.listsChanged(ctx)
	}
	c.granted(ctx, fresh, p.Granted)
	c.refused(ctx, refused, l.why)
	c.listenOn(ctx)
}

// named is the subscription that an acknowledgement is of: it says so, or the stream
// does in which it comes. Where neither has an id of ours it is the last one that was
// asked for.
func (l *listening) named(id, related json.RawMessage) listen {
	for _, raw := range []json.RawMessage{id, related} {
		if n, ok := messages.ParseRequestID(raw); ok {
			return listen(n)
		}
	}
	if l.next != 0 {
		return l.next
	}
	return l.in
}

// granted answers the subscribers for whom a subscription was made. What it does not
// grant any more of the others' is lost. nil: it grants everything.
func (c *connection) granted(ctx *kernel.Context, fresh []*pending, to *listenedTo) {
	has := func(string) bool { return true }
	if to != nil {
		those := make(map[string]bool, len(to.URIs))
		for _, uri := range to.URIs {
			those[uri] = true
		}
		has = func(uri string) bool { return those[uri] }
	}
	var lost []string
	for uri := range c.watch.uris {
		if !has(uri) {
			lost = append(lost, uri)
		}
	}
	c.loseWatched(ctx, lost)
	for _, p := range fresh { // before any is answered, since the connection may be idle then
		switch uri := uriOf(p.call); {
		case !has(uri):
		case c.waitsFor(p):
			c.watch.add(uri)
		default:
			c.watch.listen.excess = true
		}
	}
	for _, p := range fresh {
		switch {
		case !c.waitsFor(p):
		case has(uriOf(p.call)):
			c.endSubscribing(ctx, p, &messages.Answer{Result: json.RawMessage(`{}`)})
		default:
			c.endSubscribing(ctx, p, &messages.Answer{RPCError: rpcError(rpcInvalidParams, notGranted)})
		}
	}
}

// endSubscribing answers a subscriber.
func (c *connection) endSubscribing(ctx *kernel.Context, p *pending, a *messages.Answer) {
	ctx.Correlate(p.call.Trace)
	p.tool.answered(len(a.Result), time.Since(p.since))
	c.conclude(ctx, p, a)
}

// refused answers subscribers with a refusal.
func (c *connection) refused(ctx *kernel.Context, fresh []*pending, why json.RawMessage) {
	for _, p := range fresh {
		if c.waitsFor(p) {
			c.endSubscribing(ctx, p, &messages.Answer{RPCError: why})
		}
	}
}

// refuseListen deals with a subscription that does not come to be: the one in force
// stays. Several subscribers are tried again, fewer at a time, and one has the
// child's word, unless the child refuses what others are subscribed to as well, and not
// him alone: then something of theirs is gone, and all of it is subscribed to anew.
func (c *connection) refuseListen(ctx *kernel.Context, why json.RawMessage) {
	l := &c.watch.listen
	fresh := slices.DeleteFunc(l.fresh, func(p *pending) bool { return !c.waitsFor(p) })
	l.next, l.fresh = 0, nil
	switch {
	case len(fresh) == 0:
	case len(fresh) > 1:
		l.queue = append(fresh, l.queue...)
		l.most = len(fresh) / 2
	case l.trial == whole && c.watch.any():
		l.trial, l.why, l.fresh = former, why, fresh
		l.next = c.askToListen(ctx, c.watch.all())
	case l.trial == former:
		l.trial, l.fresh = alone, fresh
		l.next = c.askToListen(ctx, []string{uriOf(fresh[0].call)})
	default:
		c.refused(ctx, fresh, why)
	}
	c.listenOn(ctx)
}

// onListenOver takes the answer to a subscription, which says that it is refused, or
// is over.
func (c *connection) onListenOver(ctx *kernel.Context, f *messages.Frame) {
	l := &c.watch.listen
	id, _ := messages.ParseRequestID(f.ID)
	switch listen(id) {
	case 0:
	case l.next:
		why := rpcError(rpcRefused, notAcknowledged)
		if isRPCError(f.Error) {
			why = f.Error
		}
		c.refuseListen(ctx, why)
	case l.in:
		l.in = 0
		l.overdue.Stop()
		l.overdue = nil
		switch {
		case !l.once && isUnknownMethod(f.Error):
			return // it has none, and is not asked again
		case !l.once:
			l.pause = lastPause // it has none, or not yet
		case !l.acked:
			c.loseWatched(ctx, c.watch.all()) // one of them may be what it refuses
			c.listsChanged(ctx)               // it may never take another one
		}
		l.missing, l.unheard = true, true
		c.listenOn(ctx)
		if l.next != 0 {
			c.awaitAcknowledgement(ctx) // its answer comes first, and may never come
		}
	}
}

// listenCancelled hears that the child itself gave a subscription up.
func (c *connection) listenCancelled(ctx *kernel.Context, id json.RawMessage) {
	n, ok := messages.ParseRequestID(id)
	l := &c.watch.listen
	if !ok || n == 0 || listen(n) != l.in && listen(n) != l.next {
		return
	}
	delete(c.internal, n)
	if c.spec.URL != "" {
		c.sendInternal(ctx, cancelledLine(n, "the server gave it up")) // the link holds its stream open
	}
	c.onListenOver(ctx, &messages.Frame{ID: id})
}

// loseWatched has subscriptions be made again that the child has no more.
func (c *connection) loseWatched(ctx *kernel.Context, uris []string) {
	if len(uris) == 0 {
		return
	}
	for _, uri := range uris {
		delete(c.watch.uris, uri)
	}
	ctx.Send(c.deps.notices, &childLost{server: c.spec.Name, instance: c.instance, uris: uris})
	c.freeIfUnwatched(ctx)
}

// reopen opens the subscription again that has ended, at once where it was there for
// long, and else after a pause that grows.
func (c *connection) reopen(ctx *kernel.Context) {
	l := &c.watch.listen
	wait := l.patience(time.Since(l.since))
	if wait <= 0 {
		c.listen(ctx)
		return
	}
	l.gen++
	l.due = ctx.After(wait, &listenDue{c.run.n, l.gen})
}

// patience is how long one that ended after some time is not opened again.
func (l *listening) patience(lived time.Duration) (wait time.Duration) {
	if lived > max(2*l.pause, steadyListen) {
		l.pause = 0
	}
	wait = l.pause - lived
	l.pause = max(firstPause, min(2*l.pause, lastPause))
	return wait
}

func (c *connection) onListenDue(ctx *kernel.Context, m *listenDue) {
	l := &c.watch.listen
	if c.run == nil || m.run != c.run.n || m.gen != l.gen || l.due == nil {
		return
	}
	c.listen(ctx)
}
