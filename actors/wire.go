package actors

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/messages"
)

// JSON-RPC methods that a connection itself uses.
const (
	methodInitialize  = string(mcp.MethodInitialize)
	methodInitialized = "notifications/initialized"
	methodDiscover    = "server/discover"
	methodListen      = "subscriptions/listen"
	methodListening   = "notifications/subscriptions/acknowledged"
	methodPing        = string(mcp.MethodPing)
	methodToolsList   = string(mcp.MethodToolsList)
	methodToolsCall   = string(mcp.MethodToolsCall)
	methodCancelled   = "notifications/cancelled"
	methodProgress    = "notifications/progress"
	methodListChanged = mcp.MethodNotificationToolsListChanged
	methodMessage     = "notifications/message"
	methodElicited    = "notifications/elicitation/complete"
	methodSetLevel    = string(mcp.MethodSetLogLevel)

	methodSubscribe        = "resources/subscribe"
	methodUnsubscribe      = "resources/unsubscribe"
	methodUpdated          = mcp.MethodNotificationResourceUpdated
	methodResourcesChanged = mcp.MethodNotificationResourcesListChanged
	methodPromptsChanged   = mcp.MethodNotificationPromptsListChanged
)

// internalID is the first of the request ids that a connection uses for
// itself; those of calls stay below. All stay below 2^53, so that a child which
// reads numbers as doubles gives them back unharmed.
const internalID = uint64(1) << 52

// A call goes out under its own id, which is below 2^47. One that is repeated with
// the input that a modern child has asked for has the number of the round above it.
const (
	roundShift = 47
	callMask   = uint64(1)<<roundShift - 1
)

// inlineArgs is the size up to which a call's arguments are copied into one
// line; longer ones are written from where they are.
const inlineArgs = 16 << 10

// identity is what a connection tells children about the host.
type identity struct {
	name, version string
	// modernMeta is the _meta members that every request to a modern child
	// carries, without the braces, up to what can be asked for.
	modernMeta []byte
}

func newIdentity(name, version string) *identity {
	info, _ := json.Marshal(map[string]string{"name": name, "version": version}) // two strings always marshal
	meta := `"io.modelcontextprotocol/protocolVersion":"` + mcp.LATEST_PROTOCOL_VERSION +
		`","io.modelcontextprotocol/clientInfo":` + string(info) +
		`,"io.modelcontextprotocol/clientCapabilities":`
	return &identity{name: name, version: version, modernMeta: []byte(meta)}
}

func (id *identity) initializeParams(can messages.ClientCan) []byte {
	p, _ := json.Marshal(map[string]any{ // strings and maps always marshal
		"protocolVersion": mcp.LATEST_LEGACY_PROTOCOL_VERSION,
		"capabilities":    json.RawMessage(appendCapabilities(nil, can)),
		"clientInfo":      map[string]string{"name": id.name, "version": id.version},
	})
	return p
}

// appendCapabilities appends the capabilities of a client that can be asked for
// that, the same in both eras.
func appendCapabilities(dst []byte, can messages.ClientCan) []byte {
	sep := byte('{')
	add := func(have bool, text string) {
		if have {
			dst = append(append(dst, sep), text...)
			sep = ','
		}
	}
	switch {
	case can.Form && can.URL:
		add(true, `"elicitation":{"form":{},"url":{}}`)
	case can.Form:
		add(true, `"elicitation":{"form":{}}`)
	case can.URL:
		add(true, `"elicitation":{"url":{}}`)
	}
	add(can.Roots, `"roots":{}`)
	add(can.Tasks, `"extensions":{"`+messages.ExtensionTasks+`":{}}`)
	if can.Sampling {
		add(true, `"sampling":`)
		sep = '{'
		add(can.SamplingContext, `"context":{}`)
		add(can.SamplingTools, `"tools":{}`)
		if sep == '{' {
			dst = append(dst, '{')
		}
		dst = append(dst, '}')
		sep = ','
	}
	if sep == '{' {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

// appendModernMeta appends the members of _meta for a request of a client that
// can be asked for that and wants that much of the log.
func (id *identity) appendModernMeta(dst []byte, can messages.ClientCan, log messages.LogLevel) []byte {
	dst = appendCapabilities(append(dst, id.modernMeta...), can)
	if word := log.String(); word != "" {
		dst = append(dst, `,"io.modelcontextprotocol/logLevel":"`...)
		dst = append(append(dst, word...), '"')
	}
	return dst
}

// requestLine builds a request. params is one JSON object or nil; for a modern
// child it gets the identity spliced in, into the _meta it may have already.
func (id *identity) requestLine(era messages.Era, can messages.ClientCan, wireID uint64, method string, params []byte) []byte {
	line := make([]byte, 0, 96+len(method)+len(params)+len(id.modernMeta))
	line = append(line, `{"jsonrpc":"2.0","id":`...)
	line = strconv.AppendUint(line, wireID, 10)
	line = append(line, `,"method":`...)
	line = appendString(line, method)
	switch {
	case era == messages.EraModern:
		line = append(line, `,"params":`...)
		line = append(line, id.withModernMeta(params, can)...)
	case params != nil:
		line = append(line, `,"params":`...)
		line = append(line, params...)
	}
	return append(line, '}', '\n')
}

func (id *identity) withModernMeta(params []byte, can messages.ClientCan) []byte {
	members := map[string]json.RawMessage{}
	if params != nil {
		if err := json.Unmarshal(params, &members); err != nil {
			return params // not an object: the child says what it thinks of it
		}
	}
	var meta map[string]json.RawMessage
	if raw, ok := members["_meta"]; ok {
		if json.Unmarshal(raw, &meta) != nil {
			return params
		}
	}
	own := map[string]json.RawMessage{}
	_ = json.Unmarshal(append(id.appendModernMeta([]byte{'{'}, can, messages.LogNone), '}'), &own) // always valid
	for k, v := range meta {
		if _, ours := own[k]; !ours {
			own[k] = v
		}
	}
	rawMeta, err := json.Marshal(own)
	if err != nil {
		return params
	}
	members["_meta"] = rawMeta
	out, err := json.Marshal(members)
	if err != nil {
		return params
	}
	return out
}

// callHead and callTail enclose the arguments of a tools/call. The progress
// token is the call's id: the child's progress keeps a call alive, and finds
// its way to the client, whether the client asked for it or not.
func (id *identity) callHead(dst []byte, wireID uint64, tool string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendUint(dst, wireID, 10)
	dst = append(dst, `,"method":"tools/call","params":{"name":`...)
	dst = appendString(dst, tool)
	return append(dst, `,"arguments":`...)
}

// askLine is the request of a call that is no tools/call, in parts: its params
// as they came, and the same _meta at their end.
func (id *identity) askLine(call *messages.Call, wireID uint64, t tail) (head, params, end []byte) {
	head = append(make([]byte, 0, 64+len(call.Method)), `{"jsonrpc":"2.0","id":`...)
	head = strconv.AppendUint(head, wireID, 10)
	head = appendString(append(head, `,"method":`...), call.Method)
	head = append(head, `,"params":`...)
	if i := bytes.LastIndexByte(call.Params, '}'); i > 0 {
		params = call.Params[:i]
	} else {
		params = []byte{'{'}
	}
	end = id.callTail(make([]byte, 0, 64+len(id.modernMeta)+len(t.meta)), wireID, t)
	if rest := bytes.TrimSpace(params); len(rest) == 1 {
		end = end[1:] // no comma behind the brace
	}
	return head, params, end
}

// tail is what stands behind the arguments of a tools/call.
type tail struct {
	era   messages.Era
	can   messages.ClientCan
	log   messages.LogLevel
	meta  []byte          // further members of _meta, without the braces
	input *messages.Input // may be nil
}

func (id *identity) callTail(dst []byte, wireID uint64, t tail) []byte {
	if t.input != nil {
		if t.input.Responses != nil {
			dst = append(append(dst, `,"inputResponses":`...), t.input.Responses...)
		}
		if t.input.State != nil {
			dst = append(append(dst, `,"requestState":`...), t.input.State...)
		}
	}
	dst = append(dst, `,"_meta":{"progressToken":`...)
	dst = strconv.AppendUint(dst, wireID, 10)
	if t.era == messages.EraModern {
		dst = append(dst, ',')
		dst = id.appendModernMeta(dst, t.can, t.log)
	}
	if len(t.meta) > 0 {
		dst = append(dst, ',')
		dst = append(dst, t.meta...)
	}
	return append(dst, "}}}\n"...)
}

// notificationLine builds a notification; params is one JSON object or nil.
func notificationLine(method string, params []byte) []byte {
	line := append([]byte(`{"jsonrpc":"2.0","method":`), appendString(nil, method)...)
	if params != nil {
		line = append(line, `,"params":`...)
		line = append(line, params...)
	}
	return append(line, '}', '\n')
}

func cancelledLine(wireID uint64, reason string) []byte {
	p := append([]byte(`{"requestId":`), strconv.FormatUint(wireID, 10)...)
	p = append(p, `,"reason":`...)
	p = append(appendString(p, reason), '}')
	return notificationLine(methodCancelled, p)
}

// responseLine answers a request of the child's; body is `"result":…` or
// `"error":…`.
func responseLine(id json.RawMessage, body string) []byte {
	line := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	line = append(line, ',')
	line = append(line, body...)
	return append(line, '}', '\n')
}

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			q, _ := json.Marshal(s) // a string always marshals
			return append(dst, q...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
