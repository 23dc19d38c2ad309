package actors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/messages"
)

// scriptValue is what a script gets for the answer to its call: with raw the
// tool's whole result, whatever it says; else its value, or the error to throw.
// most bounds it in bytes.
//
// The value is structuredContent where there is one. Else it is made of the
// content: a text that is JSON as a whole is what it says, any other text
// itself, and a block of another kind stays the object that it is. One block is
// its value alone; several are an array, none is null.
func scriptValue(a *messages.Answer, call *messages.Call, raw bool, most int) (json.RawMessage, *messages.ScriptError) {
	switch {
	case a.Err != nil:
		return nil, scriptError(a.Err)
	case a.RPCError != nil:
		return nil, rpcScriptError(a.RPCError, call)
	case most > 0 && len(a.Result) > most:
		return nil, &messages.ScriptError{
			Code: string(messages.CodeSandbox), Server: call.Server, Tool: call.Tool,
			Message: fmt.Sprintf("the result has %d bytes, more than the %d that a script can take; the tool has done its work", len(a.Result), most),
			Hint:    "Ask the tool for less, in pages for instance.",
		}
	case raw:
		return a.Result, nil
	}
	var r struct {
		Content    contentBlocks   `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	err := json.Unmarshal(a.Result, &r) // which reads the other members where one is of a wrong type
	if err == nil && r.Content.odd {
		err = errOddContent
	}
	if r.IsError {
		said := r.Structured
		if err != nil && len(said) == 0 {
			said = a.Result
		}
		return nil, &messages.ScriptError{
			Code: string(messages.CodeToolExecution), Server: call.Server, Tool: call.Tool,
			Message: failureText(r.Content.list, said), Hint: "The tool itself reports this; correct the arguments or try another tool.",
		}
	}
	if err != nil {
		return a.Result, nil // an object that is no tool result still is a value
	}
	if len(r.Structured) > 0 && !bytes.Equal(r.Structured, []byte("null")) {
		return r.Structured, nil
	}
	if r.Content.many {
		return a.Result, nil // the script can take it apart itself
	}
	values := make([]json.RawMessage, len(r.Content.list))
	for i, block := range r.Content.list {
		values[i] = blockValue(block)
	}
	switch len(values) {
	case 0:
		return json.RawMessage("null"), nil
	case 1:
		return values[0], nil
	}
	all, err := json.Marshal(values)
	if err != nil { // each is a value of a text that was read
		return a.Result, nil
	}
	return all, nil
}

// maxBlocks is how many content blocks are taken apart for a script. Each is many times
// as large here as it may be in the text.
const maxBlocks = 10_000

var errOddContent = errors.New("the content is no list")

// contentBlocks are the first blocks of a result.
type contentBlocks struct {
	list []json.RawMessage
	odd  bool // it is no list
	many bool // there are more than maxBlocks
}

// UnmarshalJSON implements json.Unmarshaler. It never fails: the members behind the
// content are read, whatever that is.
func (c *contentBlocks) UnmarshalJSON(text []byte) error {
	*c = contentBlocks{}
	if bytes.Count(text, []byte{','}) < maxBlocks { // as nearly always
		c.odd = json.Unmarshal(text, &c.list) != nil
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	open, err := d.Token()
	if c.odd = err != nil || open != json.Delim('['); c.odd {
		return nil
	}
	for d.More() {
		if len(c.list) == maxBlocks {
			c.many = true
			break
		}
		var one json.RawMessage
		if d.Decode(&one) != nil {
			c.odd = true
			break
		}
		c.list = append(c.list, one)
	}
	return nil
}

// blockValue is what one content block is to a script.
func blockValue(block json.RawMessage) json.RawMessage {
	text, ok := textOf(block)
	if !ok {
		return block
	}
	if json.Valid([]byte(text)) && !losesDigits(text) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil { // a string always marshals
		return block
	}
	return quoted
}

func textOf(block json.RawMessage) (string, bool) {
	var b struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(block, &b) != nil || b.Type != "text" || b.Text == nil {
		return "", false
	}
	return *b.Text, true
}

// losesDigits reports whether a text is one number that would be another one
// in JavaScript, as long ids are.
func losesDigits(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return false
	}
	f, err := strconv.ParseFloat(text, 64)
	return err != nil || strconv.FormatFloat(f, 'f', -1, 64) != text
}

// failureText is what a tool says of its failure: the texts of its content, else what
// else it said.
func failureText(content []json.RawMessage, other json.RawMessage) string {
	var texts []string
	for _, block := range content {
		if text, ok := textOf(block); ok && strings.TrimSpace(text) != "" {
			texts = append(texts, text)
		}
	}
	text := strings.Join(texts, "\n")
	if text == "" && len(other) > 0 {
		text = string(other)
	}
	if text == "" {
		return "the tool reports an error and says nothing more"
	}
	return messages.Cut(text, maxFailureText)
}

// maxFailureText bounds, in bytes, what a script is told of a tool's failure.
const maxFailureText = 16 << 10

// rpcScriptError is a child's JSON-RPC error.
func rpcScriptError(raw json.RawMessage, call *messages.Call) *messages.ScriptError {
	var e struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &e) != nil || e.Message == "" {
		e.Message = string(raw)
	}
	return &messages.ScriptError{
		Code: string(messages.CodeToolExecution), Server: call.Server, Tool: call.Tool,
		Message: messages.Cut(e.Message, maxFailureText), Hint: "The server refused the request; it is well otherwise.",
		Details: []string{messages.Cut(string(raw), maxFailureText)},
	}
}

// scriptError is an error of ours as a script gets it; nil for none.
func scriptError(e *messages.Error) *messages.ScriptError {
	if e == nil {
		return nil
	}
	return &messages.ScriptError{
		Code: string(e.Code), Server: e.Server, Tool: e.Tool, Class: string(e.Class), Message: e.Message, Hint: e.Hint,
		Retryable: e.Retryable, RetryAfterMs: e.RetryAfter.Milliseconds(), Details: e.Details,
	}
}
