package actors

import (
	"encoding/json"
	"runtime"
	"testing"
	"weak"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// notified is a client that keeps what it was told last, and for which call.
type notified struct {
	call   uint64
	method string
}

func (*notified) Ask(uint64, []*messages.Question)              {}
func (*notified) Withdraw(uint64, []*messages.Question, string) {}
func (n *notified) Notify(call uint64, method string, _ json.RawMessage) {
	n.call, n.method = call, method
}

// An elicitation that is not complete keeps no call that is over, which may have
// arguments of any size, and its client is told all the same.
func TestElicitedKeepsNoCall(t *testing.T) {
	r := newRig(t, nil)
	client := &notified{}
	r.within(func(ctx *kernel.Context) {
		c := &connection{ctx: ctx}
		call := &messages.Call{ID: 7, Client: client, Args: make(json.RawMessage, 1<<20)}
		gone := weak.Make(call)
		c.rememberElicited(call, "e")
		runtime.GC()
		if gone.Value() != nil {
			t.Error("the call is kept")
		}
		c.onElicited(&messages.Frame{Method: methodElicited, Params: json.RawMessage(`{"elicitationId":"e"}`)})
		if client.call != 7 || client.method != methodElicited {
			t.Errorf("the client of call %d was told %q", client.call, client.method)
		}
		if len(c.asks.elicited) > 0 || len(c.asks.order) > 0 {
			t.Error("it is remembered when it is complete")
		}
	})
}
