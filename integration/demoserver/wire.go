package demoserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// JSON-RPC error codes that the server answers with.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeBusy           = -32000
	codeVersion        = -32022
)

// message is any line that a client may send.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// rpcError is an error answer to a request.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// encode returns v as JSON on one line, with <, > and & left as they are.
// The values that it is given always can be encoded; nil stands for one that
// could not, and a client would see it as null.
func encode(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}

// object makes a JSON object of key-value pairs, in their order. Values that
// are raw JSON are taken over byte for byte, which json.Marshal would not do.
func object(pairs ...any) json.RawMessage {
	var buf bytes.Buffer
	buf.WriteByte('{')
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			buf.WriteByte(',')
		}
		buf.Write(encode(pairs[i]))
		buf.WriteByte(':')
		if raw, ok := pairs[i+1].(json.RawMessage); ok {
			buf.Write(raw)
		} else {
			buf.Write(encode(pairs[i+1]))
		}
	}
	buf.WriteByte('}')
	return buf.Bytes()
}

// writer puts whole lines on stdout, one at a time, from any goroutine.
type writer struct {
	mu      sync.Mutex
	out     io.Writer
	garbage bool
}

// noise is what a server that prints to stdout looks like to its client.
var noise = []string{
	"demo-server: warming up …",
	`{"level":"info","msg":"not a JSON-RPC message"}`,
	`[1, 2`,
	"",
	"\x1b[32mready\x1b[0m {\"jsonrpc\"",
}

func (w *writer) line(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.garbage {
		for _, n := range noise {
			if _, err := io.WriteString(w.out, n+"\n"); err != nil {
				return err
			}
		}
	}
	_, err := w.out.Write(append(b, '\n'))
	return err
}

// half begins an answer that has no end.
func (w *writer) half(id json.RawMessage) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := fmt.Fprintf(w.out, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"the rest foll`, id)
	return err
}

func (w *writer) result(id, result json.RawMessage) error {
	return w.line(object("jsonrpc", "2.0", "id", id, "result", result))
}

func (w *writer) failure(id json.RawMessage, e *rpcError) error {
	return w.rawFailure(id, encode(e))
}

func (w *writer) rawFailure(id, e json.RawMessage) error {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	return w.line(object("jsonrpc", "2.0", "id", id, "error", e))
}

func (w *writer) notify(method string, params json.RawMessage) error {
	return w.line(object("jsonrpc", "2.0", "method", method, "params", params))
}

func (w *writer) request(id string, method string, params json.RawMessage) error {
	return w.line(object("jsonrpc", "2.0", "id", id, "method", method, "params", params))
}
