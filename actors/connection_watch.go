package actors

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// watching is what a connection has subscribed to at its child. A legacy child is
// asked for each resource; a modern one has a subscription for all of them and for
// the lists, in the place of which a new one comes with every change.
type watching struct {
	uris   map[string]struct{}
	listen listening
}

func (w *watching) any() bool { return len(w.uris) > 0 }

func (w *watching) all() []string { return slices.Collect(maps.Keys(w.uris)) }

func (w *watching) add(uri string) {
	if w.uris == nil {
		w.uris = map[string]struct{}{}
	}
	w.uris[uri] = struct{}{}
}

// subscribed takes notice of what a child answered to a subscription.
func (c *connection) subscribed(call *messages.Call, a *messages.Answer) {
	if call.Method == methodSubscribe && a.Result != nil {
		c.watch.add(uriOf(call))
	}
}

// unsubscribe ends a subscription to a resource.
type unsubscribe struct{ uri string }

func (c *connection) onUnsubscribe(ctx *kernel.Context, m *unsubscribe) {
	if _, ok := c.watch.uris[m.uri]; !ok || !c.ready {
		return
	}
	delete(c.watch.uris, m.uri)
	if c.hs.era == messages.EraModern {
		c.watch.listen.excess = true
		c.listenOn(ctx)
	} else {
		params := append(appendString([]byte(`{"uri":`), m.uri), '}')
		c.aside(ctx, methodUnsubscribe, params)
	}
	c.freeIfUnwatched(ctx)
}

// freeIfUnwatched has an idle connection kept no longer for subscriptions where it
// has none any more; one at work says so when it is idle.
func (c *connection) freeIfUnwatched(ctx *kernel.Context) {
	if !c.watch.any() && c.state == messages.StateIdle {
		ctx.Send(c.parent, &messages.ConnectionFree{Instance: c.instance})
	}
}

func uriOf(call *messages.Call) string {
	var p struct {
		URI string `json:"uri"`
	}
	_ = json.Unmarshal(call.Params, &p) // whoever subscribes has read it from there
	return p.URI
}

// onNotice hands on what a child says to nobody's request.
func (c *connection) onNotice(ctx *kernel.Context, f *messages.Frame) {
	switch f.Method {
	case methodListening:
		c.onListening(ctx, f)
	case methodUpdated, methodResourcesChanged, methodPromptsChanged:
		c.notice(ctx, f.Method, f.Params)
	}
}

func (c *connection) notice(ctx *kernel.Context, method string, params json.RawMessage) {
	ctx.Send(c.deps.notices, &childNotice{server: c.spec.Name, instance: c.instance, method: method, params: params})
}

// onRenewed deals with a child that has forgotten what it was told: the level of its
// log is told with the next call, and the notices see to the subscriptions as to
// those of a child that is gone.
func (c *connection) onRenewed(ctx *kernel.Context, m *runRenewed) {
	if c.run == nil || m.run != c.run.n || !c.ready {
		return
	}
	ctx.Event("renewed", "the server has forgotten the session", 0)
	c.welcomed(m.welcome) // it may be another version; what it says wrongly now it said rightly before
	c.hs.level = messages.LogNone
	c.watch = watching{}
	c.freeIfUnwatched(ctx)
	ctx.Send(c.deps.notices, &childRenewed{server: c.spec.Name, instance: c.instance})
	c.listChanged(ctx)
}
