package actors

import (
	"encoding/json"
	"slices"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// watching is what a connection has subscribed to at its child. A legacy child is
// asked for each resource; a modern one has a subscription for all of them, in
// the place of which a new one comes with every change.
type watching struct {
	uris   map[string]struct{}
	listen uint64 // the request of the present subscription; 0: none
}

func (w *watching) any() bool { return len(w.uris) > 0 }

func (w *watching) add(uri string) {
	if w.uris == nil {
		w.uris = map[string]struct{}{}
	}
	w.uris[uri] = struct{}{}
}

// listen opens the subscription of a modern child, or the one that takes the
// place of the present one.
func (c *connection) listen(ctx *kernel.Context) {
	w := &c.watch
	if c.hs.era != messages.EraModern || !c.hs.offers.Has(messages.OffersChanges) && !w.any() {
		return
	}
	filter := struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}{Tools: c.hs.offers.Has(messages.OffersTools), Prompts: c.hs.offers.Has(messages.OffersPrompts), Resources: c.hs.offers.Has(messages.OffersResources)}
	for uri := range w.uris {
		filter.URIs = append(filter.URIs, uri)
	}
	slices.Sort(filter.URIs)
	params, err := json.Marshal(map[string]any{"notifications": filter})
	if err != nil {
		return // strings and booleans always can be written
	}
	before := w.listen
	w.listen = c.request(ctx, methodListen, params, func(*kernel.Context, *messages.Frame) {})
	if before != 0 {
		delete(c.internal, before)
		c.sendInternal(ctx, cancelledLine(before, "another subscription takes its place"))
	}
}

// subscribesByListening deals with a subscription to a resource of a modern
// child, which has no request for that.
func (c *connection) subscribesByListening(ctx *kernel.Context, call *messages.Call) bool {
	if call.Method != methodSubscribe || c.hs.era != messages.EraModern {
		return false
	}
	c.watch.add(uriOf(call))
	c.handled++
	defer func() {
		c.answer(call, &messages.Answer{Result: json.RawMessage(`{}`)})
		if c.state == messages.StateIdle {
			c.tellIdle(ctx) // the breaker has counted the call
		}
	}()
	c.listen(ctx)
	return true
}

// subscribed takes notice of what a legacy child answered to a subscription.
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
		c.listen(ctx)
	} else {
		params := append(appendString([]byte(`{"uri":`), m.uri), '}')
		c.request(ctx, methodUnsubscribe, params, func(*kernel.Context, *messages.Frame) {})
	}
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
	case methodUpdated, methodResourcesChanged, methodPromptsChanged:
		ctx.Send(c.deps.notices, &childNotice{server: c.spec.Name, instance: c.instance, method: f.Method, params: f.Params})
	}
}
