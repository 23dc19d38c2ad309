package metamcp

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// The arguments of mcp_execute are what its schema says; null is as if it were
// left out.
func TestExecuteArguments(t *testing.T) {
	read := func(arguments string) (RunRequest, *Error) {
		var req mcp.CallToolRequest
		var sent any
		if err := json.Unmarshal([]byte(arguments), &sent); err != nil {
			t.Fatal(err)
		}
		req.Params.Arguments = sent
		return executeRequest(req)
	}
	for arguments, want := range map[string]time.Duration{
		`{"code":"1"}`: 0, `{"code":"1","timeoutMs":null,"language":null}`: 0, `{"code":"1","timeoutMs":1}`: time.Millisecond,
		`{"code":"1","timeoutMs":1e3}`: time.Second, `{"code":"1","timeoutMs":5000.0}`: 5 * time.Second, `{"code":"1","timeoutMs":1e300}`: maxScriptTimeout.Truncate(time.Millisecond),
	} {
		run, err := read(arguments)
		if err != nil || run.Code != "1" || run.Timeout.Round(time.Second) != want.Round(time.Second) && want < time.Hour || run.Timeout < 0 {
			t.Errorf("%s: %+v, %v", arguments, run, err)
		}
	}
	for arguments, want := range map[string]string{
		`{"code":"1","timeoutMs":1.5}`:    "timeoutMs: a whole number of milliseconds from 1 on is expected, not 1.5",
		`{"code":"1","timeoutMs":0.2}`:    "timeoutMs: a whole number of milliseconds from 1 on is expected, not 0.2",
		`{"code":"1","timeoutMs":0}`:      "timeoutMs: a whole number of milliseconds from 1 on is expected, not 0",
		`{"code":"1","timeoutMs":"5"}`:    "timeoutMs: a whole number of milliseconds from 1 on is expected, not a string: write 5",
		`{"code":"1","timeoutMs":"5s"}`:   "timeoutMs: a whole number of milliseconds from 1 on is expected, not a string: write 5000",
		`{"code":"1","timeoutMs":"soon"}`: "timeoutMs: a whole number of milliseconds from 1 on is expected, not a string: write 5000 for five seconds",
		`{"Code":"1"}`:                    `Code: no such argument; there are code, timeoutMs and language, and the script goes into "code"`,
		`{"code":"1","TIMEOUTMS":5}`:      "TIMEOUTMS: no such argument",
		`{"code":1}`:                      "code: the script is expected, a string, not a number",
		`{"code":null}`:                   "code: the script is required",
		`[1]`:                             "arguments: an object is expected",
	} {
		_, err := read(arguments)
		if err == nil || err.Hint == "" || !strings.Contains(err.Message, want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
}
