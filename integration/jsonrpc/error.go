package jsonrpc

import "strconv"

// SyntaxError says that a text is not JSON. It maps to the JSON-RPC error
// -32700.
type SyntaxError struct {
	Offset int    // byte offset, from 0, of the first byte that is wrong
	What   string // what is wrong there
}

// Error returns what is wrong and where.
func (e *SyntaxError) Error() string {
	return "invalid JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.What
}

// MessageError says that a text is JSON but no JSON-RPC 2.0 message. It maps
// to the JSON-RPC error -32600.
type MessageError struct {
	What  string // what is wrong, in one sentence
	Batch bool   // the text is an array
}

// Error returns what is wrong.
func (e *MessageError) Error() string { return "invalid JSON-RPC message: " + e.What }

// The errors without an offset are shared values, so that refusing a message
// allocates nothing.
var (
	errNotObject = &MessageError{What: "the line is no JSON object"}
	errBatch     = &MessageError{What: "the line is an array; batches were removed from the protocol in revision 2025-06-18, send one message per line", Batch: true}
	errVersion   = &MessageError{What: `the member "jsonrpc" must be the string "2.0"`}
	errID        = &MessageError{What: `the member "id" must be a string, a number or null`}
	errMethod    = &MessageError{What: `the member "method" must be a string that is not empty`}
	errEmpty     = &MessageError{What: "the object has neither a method nor a result nor an error"}
	errMixed     = &MessageError{What: "the object has a method and a result or an error as well; it can be a request or an answer, not both"}
)
