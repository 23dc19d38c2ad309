package demoserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// maxBytes bounds the answer of big: above the 64 MiB that a client is to
// accept, so that a test can go beyond it.
const maxBytes = 128 << 20

// maxNotes bounds what the server keeps.
const maxNotes = 10_000

// pixel is a PNG of one red pixel, in base64.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="

// plainTools compute an answer and touch nothing else but the server's memory.
var plainTools = []tool{
	{
		name: "echo", description: "Returns the text that it is given.",
		schema:      `{"type":"object","properties":{"text":{"type":"string","description":"What to return."}},"required":["text"]}`,
		annotations: pure, quick: echo,
	},
	{
		name: "add", description: "Adds two numbers.",
		schema:      `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"],"additionalProperties":false}`,
		output:      `{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`,
		annotations: pure, quick: add,
	},
	{
		name: "fail", description: "Fails with the message that it is given, as a tool error.",
		schema:      `{"type":"object","properties":{"message":{"type":"string"}}}`,
		annotations: pure, quick: fail,
	},
	{
		name: "refuse", description: "Answers with a JSON-RPC error of the given code and message.",
		schema:      `{"type":"object","properties":{"code":{"type":"integer","default":-32000},"message":{"type":"string"}}}`,
		annotations: pure, quick: refuse,
	},
	{
		name: "raw", description: "Returns the given object as its whole result, byte for byte.",
		schema:      `{"type":"object","properties":{"result":{"type":"object"}},"required":["result"]}`,
		annotations: pure, quick: raw,
	},
	{
		name: "notes_add", description: "Keeps a note for as long as the server runs.",
		schema:      `{"type":"object","properties":{"text":{"type":"string","minLength":1}},"required":["text"]}`,
		annotations: additive, quick: notesAdd,
	},
	{name: "meta", description: "Returns the _meta of the call, as JSON.", annotations: pure, quick: callMeta},
	{name: "notes_list", description: "Lists the notes that were added since the server started.", annotations: pure, quick: notesList},
	{name: "time_now", description: "Tells the current time in UTC, as RFC 3339.", annotations: pure, quick: timeNow},
	{name: "image", description: "Returns a PNG image of one red pixel.", annotations: pure, quick: image},
	{
		name: "big", description: "Returns a text of the given number of bytes.",
		schema:      `{"type":"object","properties":{"bytes":{"type":"integer","minimum":0,"maximum":134217728}},"required":["bytes"]}`,
		annotations: pure, quick: big,
	},
}

func echo(_ *server, c *call) (json.RawMessage, *rpcError) {
	var a struct {
		Text *string `json:"text"`
	}
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	if a.Text == nil {
		return c.problem("wrong arguments for echo: text is missing"), nil
	}
	return c.text(*a.Text), nil
}

func add(_ *server, c *call) (json.RawMessage, *rpcError) {
	var a struct{ A, B *float64 }
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	if a.A == nil || a.B == nil {
		return c.problem("wrong arguments for add: it needs the numbers a and b"), nil
	}
	return c.structured(object("sum", *a.A+*a.B)), nil
}

func fail(_ *server, c *call) (json.RawMessage, *rpcError) {
	a := struct{ Message string }{Message: "told to fail"}
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	return c.problem(a.Message), nil
}

func refuse(_ *server, c *call) (json.RawMessage, *rpcError) {
	a := struct {
		Code    int
		Message string
	}{Code: codeBusy, Message: "told to refuse"}
	if p := c.read(&a); p != "" {
		return nil, &rpcError{Code: codeInvalidParams, Message: p}
	}
	return nil, &rpcError{Code: a.Code, Message: a.Message, Data: map[string]string{"from": "refuse"}}
}

func raw(_ *server, c *call) (json.RawMessage, *rpcError) {
	var a struct{ Result json.RawMessage }
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	if len(a.Result) == 0 || a.Result[0] != '{' {
		return c.problem("wrong arguments for raw: result must be an object"), nil
	}
	return a.Result, nil
}

func notesAdd(s *server, c *call) (json.RawMessage, *rpcError) {
	var a struct{ Text string }
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	s.mu.Lock()
	full := len(s.notes) >= maxNotes
	if !full {
		s.notes = append(s.notes, a.Text)
	}
	n := len(s.notes)
	s.mu.Unlock()
	if full {
		return c.problem(fmt.Sprintf("there are %d notes already; restart the server to forget them", n)), nil
	}
	return c.structured(object("count", n)), nil
}

func notesList(s *server, c *call) (json.RawMessage, *rpcError) {
	s.mu.Lock()
	notes := append([]string{}, s.notes...)
	s.mu.Unlock()
	return c.structured(object("notes", notes)), nil
}

func timeNow(_ *server, c *call) (json.RawMessage, *rpcError) {
	return c.text(time.Now().UTC().Format(time.RFC3339Nano)), nil
}

func image(_ *server, c *call) (json.RawMessage, *rpcError) {
	return c.result("content", array([]json.RawMessage{
		object("type", "image", "data", pixel, "mimeType", "image/png"),
	})), nil
}

func big(_ *server, c *call) (json.RawMessage, *rpcError) {
	var a struct{ Bytes int }
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	if a.Bytes < 0 || a.Bytes > maxBytes {
		return c.problem(fmt.Sprintf("wrong arguments for big: bytes must be between 0 and %d", maxBytes)), nil
	}
	const line = "the quick brown fox jumps over the lazy dog. "
	return c.text(strings.Repeat(line, a.Bytes/len(line)+1)[:a.Bytes]), nil
}

func callMeta(_ *server, c *call) (json.RawMessage, *rpcError) {
	var params struct {
		Meta json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(c.params, &params); err != nil {
		return c.problem("the parameters are no object: " + err.Error()), nil
	}
	if params.Meta == nil {
		params.Meta = json.RawMessage(`{}`)
	}
	return c.text(string(params.Meta)), nil
}
