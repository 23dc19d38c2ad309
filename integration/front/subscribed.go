package front

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

const keySubscription = "io.modelcontextprotocol/subscriptionId"

var _ server.SessionWithResourceSubscriptionsErr = (*resourceListener)(nil)

// resourceListener is a listener that may subscribe to resources as well. Each
// subscription is one of the servers', which may take as long as a start.
type resourceListener struct {
	*listener
	passed Passed
	call   uint64
	over   <-chan struct{} // the request is
}

// SubscribeToResourceErr is for mcp-go; the error goes to the client.
func (l *resourceListener) SubscribeToResourceErr(uri string) error {
	done := make(chan *messages.Error, 1)
	l.passed.Subscribe(l.call, uri, l, func(err *messages.Error) {
		done <- err
		select {
		case <-l.over:
			if err == nil {
				l.passed.Unsubscribe(l)
			}
		default:
		}
	})
	select {
	case err := <-done:
		if err != nil {
			return err
		}
		return nil
	case <-l.over:
		// mcp-go ends only those that are there, and this one may come yet.
		l.passed.Unsubscribe(l)
		return errShuttingDown
	}
}

// SubscribeToResource is for mcp-go, which uses SubscribeToResourceErr.
func (l *resourceListener) SubscribeToResource(uri string) { _ = l.SubscribeToResourceErr(uri) }

// UnsubscribeFromResource is for mcp-go, which calls it for each when the request
// is over: the first one ends all.
func (l *resourceListener) UnsubscribeFromResource(string) { l.passed.Unsubscribe(l) }

// SubscribedResources is for mcp-go's own notifications, of which there are none.
func (l *resourceListener) SubscribedResources() []string { return nil }

// IsSubscribedToResource is like SubscribedResources.
func (l *resourceListener) IsSubscribedToResource(string) bool { return false }

// Updated tells the client that a resource has changed.
func (l *resourceListener) Updated(uri string, params json.RawMessage) {
	l.told(methodUpdated, uri, updatedParams(uri, params))
}

// told tells the client what was subscribed to, with the subscription's id
// in the _meta of params, which is one JSON object or nil. uri is that of the
// resource; "": it is about a list.
func (l *listener) told(method, uri string, params json.RawMessage) {
	members := make(map[string]json.RawMessage)
	if params != nil && json.Unmarshal(params, &members) != nil {
		return
	}
	if members == nil { // null sets it to that
		members = make(map[string]json.RawMessage)
	}
	var meta map[string]json.RawMessage
	if raw := members["_meta"]; raw == nil || json.Unmarshal(raw, &meta) != nil || meta == nil {
		meta = make(map[string]json.RawMessage)
	}
	meta[keySubscription] = l.id
	var err error
	if members["_meta"], err = json.Marshal(meta); err != nil {
		return // raw members of valid JSON always can be written
	}
	line, err := json.Marshal(struct {
		JSONRPC string                     `json:"jsonrpc"`
		Method  string                     `json:"method"`
		Params  map[string]json.RawMessage `json:"params"`
	}{"2.0", method, members})
	if err != nil {
		return
	}
	l.tell(about{l, method, uri}, unescapeHTML(line))
}
