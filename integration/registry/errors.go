package registry

import (
	"errors"
	"time"
)

// Reason says why a registry gave no answer.
type Reason string

// The reasons.
const (
	Unreachable Reason = "unreachable" // no connection, or it was lost
	TooSlow     Reason = "too slow"
	Refused     Reason = "refused"  // it answered that it will not: 401, 403, 429, 5xx …
	BadAnswer   Reason = "bad"      // what came is not what a registry says, or too much of it
	NotFound    Reason = "missing"  // there is no such server or version
	Invalid     Reason = "question" // the question itself is wrong; nobody was asked
)

// Error is what every function here fails with, apart from the caller's own
// end of context.
type Error struct {
	Reason  Reason
	Message string
	Hint    string // what to do next; may be ""
	// RetryAfter is how long the registry wants to be left alone; 0: it did not
	// say.
	RetryAfter time.Duration
	Cause      error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Away says whether an error is that of a registry that gave no answer to a question
// which is right: another time it may.
func Away(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason != NotFound && e.Reason != Invalid
}

func badAnswer(message string) *Error { return &Error{Reason: BadAnswer, Message: message} }

// reasonOf returns err as one of ours.
func reasonOf(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Reason: Unreachable, Message: err.Error(), Cause: err}
}
