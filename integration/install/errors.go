package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Reason says what kind of failure it was.
type Reason string

// The reasons.
const (
	Invalid      Reason = "invalid"       // a name, a version or a value that is none
	NotSupported Reason = "not supported" // a kind of server that cannot be installed yet, or here
	NoTool       Reason = "no tool"       // npm, uv, docker … is not there
	NotFound     Reason = "not found"     // there is no such package or version
	NoProgram    Reason = "no program"    // a package without anything to start, or with too much
	BadIntegrity Reason = "integrity"     // what came is not what was said
	BadBundle    Reason = "bad bundle"    // a bundle that cannot be unpacked safely, or says nonsense
	TimedOut     Reason = "timeout"
	DiskFull     Reason = "disk full"
	Missing      Reason = "missing" // values that the server needs; they are in Needs
	Failed       Reason = "failed"  // anything else; Output has what the tool said
)

// Error is what every function here fails with, apart from the end of the
// caller's context.
type Error struct {
	Reason  Reason
	Message string
	Hint    string // what to do next; may be ""
	// Output is the end of what the package manager said; "": nothing. It is
	// text of somebody else.
	Output string
	// Needs are the values that are missing, where Reason is Missing.
	Needs []Need
	// Absent says, where Reason is NotFound, that the package manager knows no package
	// of that name, in whatever version.
	Absent bool
	Cause  error
}

// Error returns the message, and the hint in brackets.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

func fail(reason Reason, hint, message string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(message, args...), Hint: hint}
}

const fullHint = "Free some disk space and try again; what was written is deleted."

// isFull recognises a full disk, by error or by what a tool said.
func isFull(err error, said string) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(said, "ENOSPC") || strings.Contains(said, "EDQUOT") ||
		strings.Contains(strings.ToLower(said), "no space left on device")
}

// onDisk is a failure of the file system.
func onDisk(doing string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if isFull(err, "") {
		return &Error{Reason: DiskFull, Message: "the disk is full: " + doing, Hint: fullHint, Cause: err}
	}
	return &Error{Reason: Failed, Message: doing + ": " + err.Error(), Cause: err}
}

// tail is the end of what a tool said, as text of a few lines.
func tail(text []byte) string {
	const most = 2000
	s := strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD"))
	if len(s) > most {
		s = "…" + strings.ToValidUTF8(s[len(s)-most:], "")
	}
	return s
}
