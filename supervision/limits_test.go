package supervision

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// What a limit of the entry ends is told by that limit's name, and a repetition is
// not recommended.
func TestEndsByLimits(t *testing.T) {
	for _, tt := range []struct {
		exit       messages.Exit
		key, cause string
	}{
		{messages.Exit{Code: -1, Signal: "SIGXCPU"}, "limits.cpuSeconds", "used up its processor time"},
		{messages.Exit{Code: -1, Signal: "SIGKILL", OutOfMemory: true, OverLimit: true}, "limits.memoryMB gives them", "the memory of its limits.memoryMB"},
		{messages.Exit{Code: -1, Signal: "SIGABRT", Refused: 3, Stderr: []string{"uv_thread_create: EAGAIN"}}, "limits.processes", "SIGABRT"},
		{messages.Exit{Code: 2, Stderr: []string{"fatal error: runtime: cannot allocate memory", "goroutine 1 [running]:", "\truntime/proc.go:363 +0x2b"}}, "limits.memoryMB", "cannot allocate memory"},
		{messages.Exit{Code: 127, Stderr: []string{"sh: error while loading shared libraries: libc.so.6: failed to map segment from shared object"}}, "limits.memoryMB", "failed to map segment"},
		{messages.Exit{Code: -1, Signal: "SIGABRT", Stderr: []string{"FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", " 1: 0xb7 node::Abort()"}}, "limits.memoryMB", "out of memory"},
	} {
		e := Describe("s", messages.Evidence{Err: errors.New("EOF"), Exit: &tt.exit})
		if e.Retryable || !strings.Contains(e.Hint, tt.key) || !strings.Contains(e.Message, tt.cause) {
			t.Errorf("%+v: %s; %s (retryable %v)", tt.exit, e.Message, e.Hint, e.Retryable)
		}
	}
	none := Describe("s", messages.Evidence{Err: fmt.Errorf("no group: %w", messages.ErrNotBounded)})
	if none.Retryable || !strings.Contains(none.Hint, `"limits" of server "s"`) || !strings.Contains(none.Message, "no group") {
		t.Errorf("a limit that nobody keeps: %s; %s (retryable %v)", none.Message, none.Hint, none.Retryable)
	}
	limits := messages.Limits{MemoryMB: 40}
	for _, tt := range []struct {
		name  string
		ev    messages.Evidence
		first bool
	}{
		{"hangs at its start", messages.Evidence{Timeout: true, Text: "no handshake", Starting: true, Limits: limits}, true},
		{"breaks down at its start", messages.Evidence{EOF: true, Exit: &messages.Exit{Code: -1, Signal: "SIGABRT", Stderr: []string{"Assertion failed: uv_thread_create"}}, Starting: true, Limits: limits}, true},
		{"ends at its start", messages.Evidence{EOF: true, Exit: &messages.Exit{Code: 1}, Starting: true, Limits: limits}, true},
		{"breaks down later", messages.Evidence{EOF: true, Exit: &messages.Exit{Code: -1, Signal: "SIGSEGV"}, Limits: limits}, true},
		{"ends later", messages.Evidence{EOF: true, Exit: &messages.Exit{Code: 1}, Limits: limits}, false},
		{"is late with an answer", messages.Evidence{Timeout: true, Limits: limits}, false},
		{"lacks a key", messages.Evidence{EOF: true, Exit: &messages.Exit{Code: 1, Stderr: []string{"API_KEY is not set"}}, Starting: true, Limits: limits}, false},
		{"is not found by its shell", messages.Evidence{EOF: true, Exit: &messages.Exit{Code: 127}, Starting: true, Limits: limits}, false},
		{"hangs without a limit", messages.Evidence{Timeout: true, Starting: true}, false},
	} {
		e := Describe("s", tt.ev)
		if got := strings.HasPrefix(e.Hint, `limits.memoryMB of server "s" may be too small (40): raise that first. `); got != tt.first {
			t.Errorf("a server that %s: %s", tt.name, e.Hint)
		}
	}
	if e := Describe("s", messages.Evidence{Err: errors.New("EOF"), Exit: &messages.Exit{Code: 127, Stderr: []string{"sh: 1: nope: not found"}}}); !strings.Contains(e.Hint, "did not find the command") {
		t.Errorf("a command that is not there: %s", e.Hint)
	}
}
