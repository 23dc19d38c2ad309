package control

import (
	"errors"
	"net/http"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/messages"
)

// The codes of an [Error] that are not codes of the runtime. Those of the
// runtime, such as SERVER_NOT_FOUND, are passed on as they are.
const (
	CodeBadRequest     = "BAD_REQUEST"
	CodeNotFound       = "NOT_FOUND"
	CodeTooManyStreams = "TOO_MANY_STREAMS"
	CodeInternal       = "INTERNAL"
	// CodeShuttingDown is of a host that is about to end.
	CodeShuttingDown = string(messages.CodeShuttingDown)
	// CodeNoHost, CodeHostNotFound and CodeSeveralHosts are of [Find].
	CodeNoHost       = "NO_HOST"
	CodeHostNotFound = "HOST_NOT_FOUND"
	CodeSeveralHosts = "SEVERAL_HOSTS"
	// CodeUnreachable is of a host that does not answer, or no longer.
	CodeUnreachable = "HOST_UNREACHABLE"
)

// Error is what an endpoint answers where it fails, and what the client
// returns.
type Error struct {
	Status  int    `json:"-"` // of HTTP; 0: no host was asked
	Code    string `json:"code"`
	Message string `json:"message"` // what failed and why, in one line
	Hint    string `json:"hint,omitempty"`
	Cause   error  `json:"-"`
}

// Error returns message and hint, for people.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// WentAway tells whether a client's call failed since its host is no longer there: it
// ended, or made way for another, while it was asked or just before. A host that hangs,
// and one that this user may not ask, are there.
func WentAway(err error) bool {
	var e *Error
	var hangs *attach.HangsError
	return errors.As(err, &e) && e.Code == CodeUnreachable && !errors.As(err, &hangs) && !attach.Unusable(err)
}

// asError makes any failure of a host one that can be sent.
func asError(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var e *messages.Error
	if !errors.As(err, &e) {
		return &Error{Status: http.StatusInternalServerError, Code: CodeInternal, Message: err.Error()}
	}
	out := &Error{Status: http.StatusInternalServerError, Code: string(e.Code), Message: e.Message, Hint: e.Hint}
	switch e.Code {
	case messages.CodeServerNotFound, messages.CodeToolNotFound:
		out.Status = http.StatusNotFound
	case messages.CodeValidation:
		out.Status = http.StatusBadRequest
	case messages.CodeShuttingDown:
		out.Status = http.StatusServiceUnavailable
	default:
	}
	return out
}
