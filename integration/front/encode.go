package front

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// encode is json.Marshal without the HTML escapes, also for what the types of
// mcp-go marshal themselves: a model pays for each of them in tokens.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return unescapeHTML(b), nil
}

// unescapeHTML turns \u003c, \u003e and \u0026 in a JSON text back into the
// characters, in place.
func unescapeHTML(b []byte) []byte {
	if !bytes.Contains(b, []byte(`\u00`)) {
		return b
	}
	out := b[:0]
	for i := 0; i < len(b); {
		if b[i] != '\\' {
			out = append(out, b[i])
			i++
			continue
		}
		if i+6 <= len(b) && b[i+1] == 'u' {
			c := byte(0)
			switch string(b[i+2 : i+6]) {
			case "003c", "003C":
				c = '<'
			case "003e", "003E":
				c = '>'
			case "0026":
				c = '&'
			}
			if c != 0 {
				out = append(out, c)
				i += 6
				continue
			}
		}
		n := min(2, len(b)-i)
		out = append(out, b[i:i+n]...)
		i += n
	}
	return out
}

// answerOf makes the line for what mcp-go answered to the request with this
// id. mcp-go reads an id as a float and would answer a large one with another;
// the line repeats the client's own.
func answerOf(id json.RawMessage, answer mcp.JSONRPCMessage) []byte {
	var member string
	var value any
	switch a := answer.(type) {
	case mcp.JSONRPCResponse:
		member, value = `,"result":`, a.Result
	case mcp.JSONRPCError:
		member, value = `,"error":`, a.Error
	case nil:
		return AppendError(nil, id, codeInvalid, "the message is no request that this server answers")
	default:
		return AppendError(nil, id, codeInternal, fmt.Sprintf("the server made an answer of an unknown kind, %T", answer))
	}
	raw, err := encode(value)
	if err != nil {
		return AppendError(nil, id, codeInternal, "the answer cannot be written as JSON: "+err.Error())
	}
	line := appendHead(make([]byte, 0, len(raw)+len(id)+40), id, member)
	return append(append(line, raw...), '}')
}
