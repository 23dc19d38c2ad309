package front

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// listener is a [Peer] during one subscriptions/listen request: it has a filter
// and an output of its own, so that several do not meet.
type listener struct {
	*Peer
	id   json.RawMessage // of the request, raw
	out  sink            // of the request
	acks chan mcp.JSONRPCNotification

	acknowledged bool // guarded by the lock of words, as over is
	over         bool
}

var _ server.SessionWithSubscriptionFilter = (*listener)(nil)

func newListener(p *Peer, id json.RawMessage, out sink) *listener {
	return &listener{Peer: p, id: id, out: out, acks: make(chan mcp.JSONRPCNotification, 2)}
}

// NotificationChannel is for mcp-go, which sends the acknowledgement there.
func (l *listener) NotificationChannel() chan<- mcp.JSONRPCNotification { return l.acks }

// SetSubscriptionFilter sets what this request subscribed to; the zero filter
// ends it.
func (l *listener) SetSubscriptionFilter(filter mcp.SubscriptionFilter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if filter.IsEmpty() {
		delete(l.filters, l)
		return
	}
	l.filters[l] = filter
}

// pump writes the acknowledgement, and behind it what waited for it. It returns when stop is closed.
func (l *listener) pump(stop <-chan struct{}) {
	pump(l.acks, stop, func(n mcp.JSONRPCNotification) {
		if n.Params.Meta != nil {
			n.Params.Meta[mcp.MetaKeySubscriptionID] = l.id // mcp-go read it as a float
		}
		l.acknowledge(n)
	})
}

// settle returns when the acknowledgement was written, or stop is closed.
func (l *listener) settle(stop <-chan struct{}) { settle(l.acks, stop) }

// notify writes a notification that was subscribed to.
func (l *listener) notify(n mcp.JSONRPCNotification) {
	tagged := n
	tagged.Params.Meta = map[string]any{mcp.MetaKeySubscriptionID: l.id}
	for k, v := range n.Params.Meta {
		tagged.Params.Meta[k] = v
	}
	if line := l.encoded(tagged); line != nil {
		l.tell(about{l: l, method: n.Method}, line)
	}
}
