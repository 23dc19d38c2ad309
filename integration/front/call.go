package front

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// modernVersion is the first revision without a handshake; revisions are dates
// and compare as strings.
const modernVersion = "2026-07-28"

// The captures of incomingShape.
const (
	slotName = iota
	slotArguments
	slotServer
	slotTool
	slotArgs
	slotTimeout
	slotUnknown
	slotMeta
	slotToken
	slotVersion
	slotCapabilities
	slotTraceParent
	slotTraceState
	slotBaggage
	slotLogLevel
	slotClientInfo
	slotClientName
	slotRequestID
	slotReason
	slotResponses
	slotState
	numSlots
)

// mcpParams are the names that mcp-go knows in the params of requests and
// notifications, beside those of incomingShape. It ignores their case.
var mcpParams = []string{
	"uri", "cursor", "level", "ref", "argument", "context", "protocolVersion", "capabilities", "clientInfo",
	"task", "taskId", "notifications", "progressToken", "progress", "total", "message",
}

// incomingShape is what the front wants to know of a client's message beyond
// its envelope. It is strict, since mcp-go and others read parts of the message
// once more.
var incomingShape = jsonrpc.NewStrictShape(mcpParams,
	jsonrpc.Field{Name: "name"},
	jsonrpc.Field{Name: "arguments", Other: true, Fields: []jsonrpc.Field{{Name: "server"}, {Name: "tool"}, {Name: "args"}, {Name: "timeoutMs"}}},
	jsonrpc.Field{Name: "_meta", Strict: true, Known: []string{"io.modelcontextprotocol/related-task"}, Fields: []jsonrpc.Field{
		{Name: "progressToken"},
		{Name: "io.modelcontextprotocol/protocolVersion"},
		{Name: "io.modelcontextprotocol/clientCapabilities"},
		{Name: "traceparent"}, {Name: "tracestate"}, {Name: "baggage"},
		{Name: "io.modelcontextprotocol/logLevel"},
		{Name: "io.modelcontextprotocol/clientInfo", Strict: true, Fields: []jsonrpc.Field{{Name: "name"}}, Known: []string{"version"}},
	}},
	jsonrpc.Field{Name: "requestId"},
	jsonrpc.Field{Name: "reason"},
	jsonrpc.Field{Name: "inputResponses"},
	jsonrpc.Field{Name: "requestState"},
)

// incoming is one message of the client and what was cut out of it.
type incoming struct {
	jsonrpc.Message
	slots  [numSlots][]byte
	burst  *messages.Burst // what it came with; nil: it is of none
	number uint64          // of its parsing; see [Entry]
	free   func()          // as that of the [Entry] which it becomes
}

func parseIncoming(line []byte) (incoming, error) {
	var in incoming
	err := in.parse(line)
	return in, err
}

// parse is parseIncoming where it is not to be copied.
func (in *incoming) parse(line []byte) (err error) {
	in.Message, err = jsonrpc.ParseShape(line, incomingShape, in.slots[:])
	return err
}

// let gives back the room of a message that has become no request in flight.
func (in *incoming) let() {
	if in.free != nil {
		in.free()
		in.free = nil
	}
}

// line is the message for a reader that parses it once more: what was read of it
// here, and nothing else.
func (in *incoming) line() json.RawMessage {
	line := append(make([]byte, 0, len(in.ID)+len(in.Method)+len(in.Params)+64), `{"jsonrpc":"2.0"`...)
	if in.ID != nil {
		line = append(append(line, `,"id":`...), in.ID...)
	}
	line = jsonrpc.AppendQuote(append(line, `,"method":`...), in.Method)
	if in.Params != nil {
		line = append(append(line, `,"params":`...), in.Params...)
	}
	return append(line, '}')
}

// era returns the generation that the message declares. ok is false for a
// modern message that mcp-go has to refuse, because it declares a revision
// that is not known or lacks the client's capabilities.
func (in *incoming) era() (era messages.Era, ok bool) {
	version := in.slots[slotVersion]
	if len(version) < 2 || version[0] != '"' || string(version[1:len(version)-1]) < modernVersion {
		return messages.EraLegacy, true
	}
	caps := in.slots[slotCapabilities]
	return messages.EraModern, string(version) == `"`+modernVersion+`"` && len(caps) > 0 && caps[0] == '{'
}

// calls says whether the message is a call of the tool name.
func (in *incoming) calls(name string) bool {
	if in.Method != "tools/call" {
		return false
	}
	raw := in.slots[slotName]
	if len(raw) < 2 || raw[0] != '"' {
		return false
	}
	if string(raw[1:len(raw)-1]) == name {
		return true
	}
	s, err := jsonrpc.Unquote(raw)
	return err == nil && s == name
}

// token returns the client's progress token, or nil. A token that is neither a
// string nor a number is none.
func (in *incoming) token() json.RawMessage {
	if raw := in.slots[slotToken]; isToken(raw) {
		return raw
	}
	return nil
}

func isToken(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || raw[0]-'0' <= 9)
}

// Bounds of the strings of a trace context, after what W3C recommends to
// accept at least; what is longer does not travel on.
const (
	maxTraceParent = 256
	maxTraceState  = 2048
	maxBaggage     = 8192
)

// traceContext returns the trace context in the request's _meta. What is not a
// string, or too long, is none.
func (in *incoming) traceContext() messages.TraceContext {
	text := func(slot, most int) json.RawMessage {
		if raw := in.slots[slot]; len(raw) > 2 && raw[0] == '"' && len(raw) <= most {
			return raw
		}
		return nil
	}
	return messages.TraceContext{
		Parent: text(slotTraceParent, maxTraceParent), State: text(slotTraceState, maxTraceState), Baggage: text(slotBaggage, maxBaggage),
	}
}

// request reads the arguments of the spliced tool into r. The error is for the
// model.
func (in *incoming) request(r *Request, names *names) *messages.Error {
	var details []string
	bad := func(detail string) { details = append(details, detail) }

	if raw := in.slots[slotArguments]; absent(raw) {
		bad("arguments: missing")
	} else if raw[0] != '{' {
		bad("arguments: an object is expected")
	} else {
		if r.Server = names.of(in.slots[slotServer]); r.Server == "" {
			bad("server: the name of a server is required, a string")
		}
		if r.Tool = names.of(in.slots[slotTool]); r.Tool == "" {
			bad("tool: the name of one of the server's tools is required, a string")
		}
		if args := in.slots[slotArgs]; !absent(args) {
			if args[0] == '{' {
				r.Args = args
			} else {
				bad("args: an object with the tool's arguments is expected, not " + kindOf(args))
			}
		}
		if raw := in.slots[slotTimeout]; !absent(raw) {
			timeout, ok := milliseconds(raw)
			if !ok {
				bad("timeoutMs: a number of milliseconds above 0 is expected")
			}
			r.Timeout = timeout
		}
		if raw := in.slots[slotUnknown]; raw != nil {
			bad(noSuchArgument(raw))
		}
	}
	if details == nil {
		return nil
	}
	return &messages.Error{
		Code:    messages.CodeValidation,
		Message: "the call has the wrong form: " + details[0],
		Server:  r.Server, Tool: r.Tool,
		Hint:    `Send {"server": "...", "tool": "...", "args": {...}}; mcp_discover lists the servers, their tools and the schemas of args.`,
		Details: details,
	}
}

// noSuchArgument refuses a member that the schema of the spliced tool does not have:
// what the client meant by it would be lost, and the call made without it.
func noSuchArgument(raw []byte) string {
	const longest = 100
	name, _ := jsonrpc.Unquote(raw) // it was read as a string before
	return messages.Cut(name, longest) + `: no such argument; there are server, tool, args and timeoutMs, and the tool's own arguments go into "args"`
}

func absent(raw []byte) bool { return raw == nil || string(raw) == "null" }

func kindOf(raw []byte) string {
	switch raw[0] {
	case '"':
		return "a string"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	default:
		return "a number"
	}
}

// maxTimeout is the longest timeout that is believed; a longer one is cut.
const maxTimeout = 24 * time.Hour

func milliseconds(raw []byte) (time.Duration, bool) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(f > 0) {
		return 0, false
	}
	if f >= float64(maxTimeout/time.Millisecond) {
		return maxTimeout, true
	}
	return max(time.Duration(f*float64(time.Millisecond)), 1), true
}
