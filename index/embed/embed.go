// Package embed turns texts into vectors whose direction tells what they
// mean. [Embedder] is what every source of vectors offers; each source is a
// package of its own below this one.
package embed

import (
	"context"
	"fmt"
	"time"
)

// Kind says what a text is, since some models embed a question otherwise than
// the document that answers it.
type Kind uint8

// The kinds of texts.
const (
	Document Kind = iota
	Query
)

// String is the word for the kind that people and APIs use.
func (k Kind) String() string {
	if k == Query {
		return "query"
	}
	return "document"
}

// An Embedder turns texts into vectors. Its methods may be called by several
// goroutines at once.
type Embedder interface {
	// Model names what makes the vectors, such as "voyage/voyage-3-lite".
	// Vectors of one name can be compared with each other, and those of
	// different names never: it is the key under which they are kept, so it
	// changes whenever the numbers would.
	Model() string
	// Batch is how many texts one call of Embed takes at most; at least 1.
	Batch() int
	// Embed returns one vector for each text, in the order of the texts, all
	// of one dimension and of length 1 (L2 norm); the vector of a text in
	// which the model sees nothing is nil. Texts of any length and content
	// are taken: what is too long for the model is cut. It ends early
	// when ctx does. An error is an *[Error], or that of ctx.
	Embed(ctx context.Context, kind Kind, texts []string) ([][]float32, error)
	// Close ends whatever the embedder has started, and waits for it. Embed
	// must not be called afterwards.
	Close() error
}

// Reason tells what kind of trouble an embedder is in, and so whether to try
// again.
type Reason string

// The reasons.
const (
	// Unauthorized: the key is wrong or may not do this. Trying again is of
	// no use before the configuration changes.
	Unauthorized Reason = "unauthorized"
	// Misconfigured: the model does not exist, a file is missing or such.
	// Trying again is of no use before somebody mends it.
	Misconfigured Reason = "misconfigured"
	// RateLimited: too many requests; see [Error.RetryAfter].
	RateLimited Reason = "rate limited"
	// Unavailable: it cannot be reached, crashed, or did not answer in time.
	Unavailable Reason = "unavailable"
	// BadAnswer: the answer cannot be used, such as vectors of another
	// dimension than those before.
	BadAnswer Reason = "bad answer"
)

// Permanent reports whether trying again is of no use before somebody
// changes something.
func (r Reason) Permanent() bool { return r == Unauthorized || r == Misconfigured }

// An Error says why texts were not embedded. It never contains a key.
type Error struct {
	Reason Reason
	// Message says what failed and why, Hint what to do next.
	Message string
	Hint    string
	// RetryAfter is how long to wait before the next try; 0: not known.
	RetryAfter time.Duration
	Cause      error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return fmt.Sprintf("%s. %s", e.Message, e.Hint)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }
