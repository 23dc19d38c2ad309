package relay

import (
	"encoding/json"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// modernVersion is the first revision without a handshake; revisions are dates
// and compare as strings.
const modernVersion = "2026-07-28"

// The captures of shape.
const (
	slotName = iota
	slotMeta
	slotVersion
	slotRequestID
	numSlots
)

// shape is strict, since that of a host is, which answers by no id where readers differ
// on which one a message has. The members behind those that have a slot are of no use
// here: a name that a strict shape knows costs no allocation.
var shape = jsonrpc.NewStrictShape(nil,
	jsonrpc.Field{Name: "name"},
	jsonrpc.Field{Name: "_meta", Fields: []jsonrpc.Field{{Name: "io.modelcontextprotocol/protocolVersion"}}},
	jsonrpc.Field{Name: "requestId"},
	jsonrpc.Field{Name: "arguments"},
	jsonrpc.Field{Name: "reason"},
)

// message is what the relay knows of a line of the client.
type message struct {
	id     string // raw; "": it wants no answer
	method string
	tool   string // of tools/call
	modern bool
	params json.RawMessage
	// cancels is the id that a cancellation names.
	cancels string
	// answers is the id of the host's request that this is the answer to; "":
	// it is none.
	answers string
}

// parse looks at a whole line. What is no message has no method, and is the host's to
// refuse; it has an id where the host refuses it by that.
func parse(line []byte) message {
	var slots [numSlots][]byte
	in, err := jsonrpc.ParseShape(line, shape, slots[:])
	id := string(in.ID)
	if id == "null" {
		id = ""
	}
	switch {
	case err != nil:
		return message{id: id}
	case in.Method == "":
		return message{answers: string(in.ID)}
	}
	m := message{id: id, method: in.Method, params: in.Params}
	m.tool, _ = jsonrpc.Unquote(slots[slotName])
	version, _ := jsonrpc.Unquote(slots[slotVersion])
	m.modern = version >= modernVersion
	if m.method == methodCancelled {
		m.cancels = string(slots[slotRequestID])
	}
	return m
}

// The methods that the relay knows.
const (
	methodInitialize    = "initialize"
	methodInitialized   = "notifications/initialized"
	methodSetLevel      = "logging/setLevel"
	methodListen        = "subscriptions/listen"
	methodSubscribe     = "resources/subscribe"
	methodUnsubscribe   = "resources/unsubscribe"
	methodCancelled     = "notifications/cancelled"
	methodListPrompts   = "prompts/list"
	methodListResources = "resources/list"
	methodListTemplates = "resources/templates/list"
	methodCall          = "tools/call"
	toolDiscover        = "mcp_discover"
	methodListening     = "notifications/subscriptions/acknowledged"
	methodUpdated       = "notifications/resources/updated"
	methodTools         = "notifications/tools/list_changed"
	methodResources     = "notifications/resources/list_changed"
	methodPrompts       = "notifications/prompts/list_changed"
	keySubscription     = "io.modelcontextprotocol/subscriptionId"
)

// noticeOf is the notification about the list that a method asks for, but that of
// tools: all clients have some.
var noticeOf = map[string]string{methodListPrompts: methodPrompts, methodListResources: methodResources, methodListTemplates: methodResources}

// repeatable tells whether a request may be sent to a second host: it changes
// nothing, or only the client's own session.
func (m *message) repeatable() bool {
	switch m.method {
	case methodInitialize, methodSetLevel, methodListen, methodSubscribe, methodUnsubscribe, "server/discover", "ping", "tools/list",
		methodListPrompts, methodListResources, methodListTemplates, "resources/read", "completion/complete":
		return true
	case methodCall:
		return m.tool == toolDiscover
	}
	return false
}

// failure is the answer to a request that no host answered. again says that it
// may be sent once more as it is.
func failure(r *request, text, hint string, again bool) []byte {
	if r.method != methodCall {
		const internal = -32603
		e, err := json.Marshal(map[string]any{"code": internal, "message": text + ". " + hint})
		if err != nil {
			return nil
		}
		return append(append(head(r.id, `,"error":`), e...), "}\n"...)
	}
	e, err := json.Marshal(map[string]any{"error": &messages.Error{Code: messages.CodeHostAway, Message: text, Hint: hint, Retryable: again}})
	if err != nil {
		return nil
	}
	quoted := jsonrpc.AppendQuote(nil, string(e))
	line := head(r.id, `,"result":{`)
	if r.modern {
		line = append(line, `"resultType":"complete",`...)
	}
	line = append(append(line, `"content":[{"type":"text","text":`...), quoted...)
	return append(line, "}],\"isError\":true}}\n"...)
}

func head(id, member string) []byte {
	return append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), member...)
}
