package supervision

import (
	"errors"
	"fmt"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// TestDescribeKeepsARefusal: whoever refused to start a process has said why,
// and what to do about it.
func TestDescribeKeepsARefusal(t *testing.T) {
	said := &messages.Error{Code: messages.CodeConfiguration, Message: "a file was changed", Hint: "Remove it.", Retryable: true}
	cause := fmt.Errorf("start: %w", said)
	got := Describe("x", messages.Evidence{Err: cause})
	if got.Code != messages.CodeConfiguration || got.Message != said.Message || got.Hint != said.Hint || got.Server != "x" || got.Retryable || !errors.Is(got, said) {
		t.Errorf("got %+v", got)
	}
	if said.Server != "" {
		t.Error("the error of somebody else was changed")
	}
}
