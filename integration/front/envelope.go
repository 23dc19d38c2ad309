package front

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// The JSON-RPC error codes that the front itself uses.
const (
	codeParse    = -32700
	codeInvalid  = -32600
	codeParams   = -32602
	codeInternal = -32603
	codeTooMany  = -32000
	// A server error of ours, like the one above.
	codeShuttingDown = -32001
	keyServerInfo    = "io.modelcontextprotocol/serverInfo"
	nullID           = "null"
	memberComplete   = `"resultType":"complete"`
	memberMetaOpen   = `"_meta":{"` + keyServerInfo + `":`
	memberMetaClose  = `}`
)

// AppendResult appends the response that carries result, which must be one
// valid JSON value. For a legacy request the result goes out byte for byte.
// For a modern one, an object that lacks them gets the members that revision
// 2026-07-28 asks for, resultType and, where serverInfo is not nil, the
// server's identity in _meta; all other bytes stay. The line has no line feed,
// neither at its end nor inside.
func AppendResult(dst, id, result []byte, era messages.Era, serverInfo []byte) []byte {
	dst = appendHead(dst, id, `,"result":`)
	p := splitResult(result, era, serverInfo)
	for _, piece := range p.of() {
		dst = append(dst, piece...)
	}
	return append(dst, '}')
}

// AppendRPCError appends the response that carries a child's error member byte
// for byte.
func AppendRPCError(dst, id, rpcError []byte) []byte {
	dst = appendHead(dst, id, `,"error":`)
	dst = append(dst, flat(rpcError)...)
	return append(dst, '}')
}

// AppendError appends an error response of our own.
func AppendError(dst, id []byte, code int, message string) []byte {
	dst = appendHead(dst, id, `,"error":{"code":`)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = jsonrpc.AppendQuote(dst, message)
	return append(dst, "}}"...)
}

// AppendToolError appends the response that tells the model of a failure of
// ours: a tool result with isError, whose one text is the error as compact
// JSON.
func AppendToolError(dst, id []byte, e *messages.Error, era messages.Era, serverInfo []byte) []byte {
	return AppendResult(dst, id, ToolErrorResult(e), era, serverInfo)
}

// ToolErrorResult is the tool result that [AppendToolError] sends, for fronts
// that have their own envelope.
func ToolErrorResult(e *messages.Error) json.RawMessage {
	text := errorText(e)
	result := append(make([]byte, 0, len(text)*5/4+64), `{"content":[{"type":"text","text":`...)
	result = jsonrpc.AppendQuote(result, string(text))
	return append(result, `}],"isError":true}`...)
}

// errorText is an error as a JSON object.
func errorText(e *messages.Error) []byte {
	text := jsonrpc.AppendQuote([]byte(`{"error":{"code":`), string(e.Code))
	member := func(name, value string) {
		if value != "" {
			text = append(text, name...)
			text = jsonrpc.AppendQuote(text, value)
		}
	}
	text = append(text, `,"message":`...)
	text = jsonrpc.AppendQuote(text, e.Message)
	member(`,"server":`, e.Server)
	member(`,"tool":`, e.Tool)
	member(`,"class":`, string(e.Class))
	text = append(text, `,"retryable":`...)
	text = strconv.AppendBool(text, e.Retryable)
	if e.RetryAfter > 0 {
		text = append(text, `,"retryAfterMs":`...)
		text = strconv.AppendInt(text, e.RetryAfter.Milliseconds(), 10)
	}
	member(`,"hint":`, e.Hint)
	if len(e.Details) > 0 {
		text = append(text, `,"details":[`...)
		for i, d := range e.Details {
			if i > 0 {
				text = append(text, ',')
			}
			text = jsonrpc.AppendQuote(text, d)
		}
		text = append(text, ']')
	}
	return append(text, "}}"...)
}

// AppendProgress appends the progress notification with the params of a child,
// in which the progress token, which is ours there, is replaced by the
// client's; all other bytes stay.
func AppendProgress(dst, token, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"notifications/progress","params":`...)
	params = bytes.TrimSpace(flat(params))
	if start, end, ok := jsonrpc.Index(params, "progressToken"); ok {
		dst = append(dst, params[:start]...)
		dst = append(dst, token...)
		dst = append(dst, params[end:]...)
		return append(dst, '}')
	}
	dst = append(dst, `{"progressToken":`...)
	dst = append(dst, token...)
	if rest := membersOf(params); len(rest) > 1 {
		if rest[0] != '}' {
			dst = append(dst, ',')
		}
		dst = append(dst, rest...)
	} else {
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// membersOf is what follows the opening brace of an object, without the space
// at its start; nil for what is no object.
func membersOf(obj []byte) []byte {
	if len(obj) < 2 || obj[0] != '{' {
		return nil
	}
	return bytes.TrimLeft(obj[1:], " \t\r\n")
}

// appendHead appends the start of a response, up to and with member.
func appendHead(dst, id []byte, member string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if len(id) == 0 {
		dst = append(dst, nullID...)
	} else {
		dst = append(dst, id...)
	}
	return append(dst, member...)
}

// flat returns raw without line feeds and carriage returns, which may stand
// between the tokens of a child's message that did not come as one line, and
// would break ours in two.
func flat(raw []byte) []byte {
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	out := bytes.Clone(raw)
	for i, c := range out {
		if c == '\n' || c == '\r' {
			out[i] = ' '
		}
	}
	return out
}

// flatten is flat in place, for the text of one valid message, in which line breaks
// stand between tokens alone.
func flatten(raw []byte) {
	for i, c := range raw {
		if c == '\n' || c == '\r' {
			raw[i] = ' '
		}
	}
}

// pieces is a result cut where something is put in, so that a large one need
// not be copied.
type pieces struct {
	list [5][]byte
	n    int
}

func (p *pieces) add(b []byte) {
	p.list[p.n] = b
	p.n++
}

func (p *pieces) of() [][]byte { return p.list[:p.n] }

// splitResult cuts result and adds what a modern response must have.
func splitResult(result []byte, era messages.Era, serverInfo []byte) pieces {
	var p pieces
	result = flat(result)
	if start := bytes.TrimLeft(result, " \t"); era != messages.EraModern || len(start) == 0 || start[0] != '{' {
		p.add(result)
		return p
	}
	open := bytes.IndexByte(result, '{') + 1
	hasType, members := false, 0
	var meta []byte
	metaAt := -1
	if err := jsonrpc.Scan(result, func(key, val []byte) error {
		members++
		switch string(key) {
		case "resultType":
			hasType = true
		case "_meta":
			meta = val
		}
		return nil
	}); err != nil {
		p.add(result)
		return p
	}
	if meta != nil {
		metaAt, _, _ = jsonrpc.Index(result, "_meta")
	}

	var first []byte
	put := func(member ...[]byte) {
		if len(first) > 0 {
			first = append(first, ',')
		}
		for _, m := range member {
			first = append(first, m...)
		}
	}
	if !hasType {
		put([]byte(memberComplete))
	}
	if meta == nil && serverInfo != nil {
		put([]byte(memberMetaOpen), serverInfo, []byte(memberMetaClose))
	}
	if len(first) > 0 && members > 0 {
		first = append(first, ',')
	}
	p.add(result[:open])
	p.add(first)
	if len(meta) == 0 || meta[0] != '{' || serverInfo == nil || jsonrpc.Get(meta, keyServerInfo) != nil {
		p.add(result[open:])
		return p
	}
	inside := append([]byte(`"`+keyServerInfo+`":`), serverInfo...)
	if rest := membersOf(meta); len(rest) > 0 && rest[0] != '}' {
		inside = append(inside, ',')
	}
	p.add(result[open : metaAt+1])
	p.add(inside)
	p.add(result[metaAt+1:])
	return p
}
