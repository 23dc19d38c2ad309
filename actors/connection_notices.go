package actors

import (
	"encoding/json"
	"slices"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// setLevel tells a legacy child how much of its log the client of a call wants;
// while it also works for others, the one that wants most counts.
func (c *connection) setLevel(ctx *kernel.Context, call *messages.Call) {
	level := call.Log
	if level == c.hs.level {
		return
	}
	if c.hs.level != messages.LogNone && c.hs.level < level && !c.itsTurn(call) {
		return
	}
	c.hs.level = level
	c.aside(ctx, methodSetLevel, []byte(`{"level":"`+level.String()+`"}`))
}

// onMessage passes a line of the child's log on to the client of the call that it
// belongs to.
func (c *connection) onMessage(f *messages.Frame) {
	p, _ := c.callOf(f)
	if p == nil || p.call.Client == nil || p.call.Log == messages.LogNone {
		return
	}
	var params struct {
		Level string          `json:"level"`
		Data  json.RawMessage `json:"data"`
	}
	if json.Unmarshal(f.Params, &params) != nil || params.Data == nil {
		return
	}
	if level := messages.ParseLogLevel(params.Level); level != messages.LogNone && level >= p.call.Log {
		c.ctx.Correlate(p.call.Trace)
		c.notify(p.call.Client, p.call.ID, f)
	}
}

// notify passes a notification of the child's on to the client of a call.
func (c *connection) notify(client messages.ClientPort, call uint64, f *messages.Frame) {
	c.ctx.Contain(func() { client.Notify(call, f.Method, f.Params) })
}

func elicitationID(params json.RawMessage) string {
	var e struct {
		ID string `json:"elicitationId"`
	}
	if json.Unmarshal(params, &e) != nil {
		return ""
	}
	return e.ID
}

// rememberElicited notes whom to tell when an elicitation by URL is complete, which
// may be after the call.
func (c *connection) rememberElicited(call *messages.Call, id string) {
	if id == "" || call.Client == nil {
		return
	}
	if c.asks.elicited == nil {
		c.asks.elicited = map[string]elicited{}
	}
	if _, known := c.asks.elicited[id]; !known {
		if len(c.asks.order) >= maxElicited {
			delete(c.asks.elicited, c.asks.order[0])
			c.asks.order = c.asks.order[1:]
		}
		c.asks.order = append(c.asks.order, id)
	}
	c.asks.elicited[id] = elicited{call.Client, call.ID}
}

// expectElicited reads the elicitations of an error that sends the client to URLs
// before it calls again.
func (c *connection) expectElicited(call *messages.Call, raw json.RawMessage) {
	const urlElicitationRequired = -32042
	var e struct {
		Code int64 `json:"code"`
		Data struct {
			Elicitations []struct {
				ID string `json:"elicitationId"`
			} `json:"elicitations"`
		} `json:"data"`
	}
	if json.Unmarshal(raw, &e) != nil || e.Code != urlElicitationRequired {
		return
	}
	for _, one := range e.Data.Elicitations[:min(len(e.Data.Elicitations), maxElicited)] {
		c.rememberElicited(call, one.ID)
	}
}

// onElicited tells the client that an elicitation is complete.
func (c *connection) onElicited(f *messages.Frame) {
	id := elicitationID(f.Params)
	to, known := c.asks.elicited[id]
	if !known {
		return
	}
	delete(c.asks.elicited, id)
	c.asks.order = slices.DeleteFunc(c.asks.order, func(other string) bool { return other == id })
	c.notify(to.client, to.call, f)
}
