package supervision

import (
	"fmt"
	"time"
)

// Directive is what a supervisor does with a child that failed.
type Directive uint8

// The directives.
const (
	// Resume keeps the child, its state and its mailbox; the message that it
	// failed on is lost.
	Resume Directive = iota
	// Restart replaces the child by a fresh one; its own children end.
	Restart
	// Stop ends the child.
	Stop
	// Escalate makes the failure the supervisor's own.
	Escalate
)

// String returns the directive's name for traces.
func (d Directive) String() string {
	switch d {
	case Resume:
		return "resume"
	case Restart:
		return "restart"
	case Stop:
		return "stop"
	case Escalate:
		return "escalate"
	}
	return fmt.Sprintf("directive(%d)", uint8(d))
}

// Strategy decides what becomes of a child that panicked. Expected failures
// (a lost process, a refused connection) are messages and never come here.
// Decide is called by the supervisor alone, one call at a time; child is the
// name under which the child's failures are counted, reason the panic value.
type Strategy interface {
	Decide(child string, reason any, now time.Time) Directive
}
