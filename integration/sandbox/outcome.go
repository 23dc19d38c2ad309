package sandbox

import "encoding/json"

// FailureKind says what ended a run without a value.
type FailureKind uint8

// The kinds of failures.
const (
	FailSyntax      FailureKind = iota + 1 // the source does not parse
	FailException                          // the script threw
	FailRejection                          // a promise that nobody awaited was rejected, and nothing else happened any more
	FailTimeout                            // the wall time was used up
	FailMemory                             // the heap, or the process, grew over its bound
	FailStack                              // calls nested too deeply
	FailOutput                             // value and console together are too large, or the value is no JSON
	FailCalls                              // too many calls, or sleeps at once
	FailDeadlock                           // nothing is left that could settle the awaited promise
	FailCode                               // the source is too long
	FailCancelled                          // the host ended it
	FailCrashed                            // the worker process ended
	FailUnsupported                        // import, require, eval and the like
)

var failureKinds = [...]string{
	FailSyntax: "syntax", FailException: "exception", FailRejection: "rejection", FailTimeout: "timeout", FailMemory: "memory",
	FailStack: "stack", FailOutput: "output", FailCalls: "calls", FailDeadlock: "deadlock", FailCode: "code_size",
	FailCancelled: "cancelled", FailCrashed: "crashed", FailUnsupported: "unsupported",
}

func (k FailureKind) String() string { return nameOf(failureKinds[:], uint8(k), "failure kind") }

// MarshalText implements encoding.TextMarshaler.
func (k FailureKind) MarshalText() ([]byte, error) {
	return textOf(failureKinds[:], uint8(k), "failure kind")
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *FailureKind) UnmarshalText(text []byte) error {
	n, err := valueOf(failureKinds[:], text, "failure kind")
	*k = FailureKind(n)
	return err
}

// Failure says why there is no value. Lines and columns count from 1 in the
// author's source; columns count UTF-16 units, as editors do.
type Failure struct { //nolint:errname // what a run ends with, which may be used as an error
	Kind    FailureKind `json:"kind"`
	Message string      `json:"message"`        // what and why
	Hint    string      `json:"hint,omitempty"` // what to do next
	Line    int         `json:"line,omitempty"` // 0: not known
	Column  int         `json:"column,omitempty"`
	Excerpt string      `json:"excerpt,omitempty"` // the source line, and a caret below
	Stack   string      `json:"stack,omitempty"`   // the author's own frames, one a line; bounded
	Thrown  *CallError  `json:"thrown,omitempty"`  // the failed call, where its error is what was thrown
}

func (f *Failure) Error() string { return f.Message }

// Outcome ends a run; there is exactly one, unless the process ends first.
type Outcome struct {
	Value     json.RawMessage `json:"value,omitempty"` // nil: undefined, or a failure
	Failure   *Failure        `json:"failure,omitempty"`
	Dropped   int             `json:"dropped,omitempty"`   // console lines that were over a bound
	Cancelled int             `json:"cancelled,omitempty"` // calls under way, or waiting for their turn, when the script ended; their ids are void
	Sleeping  int             `json:"sleeping,omitempty"`  // sleeps under way when the script ended
	PeakBytes int64           `json:"peakBytes,omitempty"` // the largest resident size that was seen of the process, which tests hold to its bounds; 0 where it is not known
}
