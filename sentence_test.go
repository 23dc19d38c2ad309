package metamcp

import (
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// The sandbox's hints stand within others there, and alone in an answer.
func TestHintsOfRunsAreSentences(t *testing.T) {
	for hint, want := range map[string]string{
		"look for a loop":   "Look for a loop",
		"The time was over": "The time was over",
		"\x60x\x60 is none": "\x60x\x60 is none",
		"":                  "Correct the script; what it had called before has happened.",
	} {
		if got := NewRunError(&RunFailure{Hint: hint}).Hint; got != want {
			t.Errorf("%q became %q, want %q", hint, got, want)
		}
	}
	thrown := &RunFailure{Hint: "of the script", Thrown: &messages.ScriptError{Hint: "await calls first"}}
	if got := NewRunError(thrown).Hint; got != "Await calls first" {
		t.Errorf("the hint of what was thrown is %q", got)
	}
}
