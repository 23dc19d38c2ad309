package metamcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/messages"
)

const (
	toolExecute = actors.ExecuteTool
	outcomeOK   = actors.OutcomeOK
)

const executeSchema = `{"type":"object","properties":{` +
	`"code":{"type":"string","description":"body of an async function"},` +
	`"timeoutMs":{"type":"integer","minimum":1},` +
	`"language":{"type":"string","enum":["javascript","typescript"]}},"required":["code"],"additionalProperties":false}`

const executeDescription = "Run JavaScript or TypeScript that uses many tools: loops, filters, Promise.all. " +
	"`await servers.NAME.TOOL(args)` gives a tool's value or throws {code, server, tool}; `return` gives the answer. " +
	"Also discover(query), servers.list(), sleep(ms), console. No files, network or imports."

// maxScriptTimeout is the longest timeout that there is; a longer one is cut.
const maxScriptTimeout = time.Duration(math.MaxInt64)

// executeRequest reads the arguments of mcp_execute. The error is for the
// model.
func executeRequest(req mcp.CallToolRequest) (RunRequest, *Error) {
	run, details := readExecute(req.GetRawArguments())
	if details == nil {
		return run, nil
	}
	return RunRequest{}, &Error{
		Code: messages.CodeValidation, Message: "the call has the wrong form: " + details[0],
		Hint:    `Send {"code": "return await servers.NAME.TOOL({…})"}; optional are "timeoutMs", such as 30000, and "language", "javascript" or "typescript".`,
		Details: details,
	}
}

func readExecute(sent any) (run RunRequest, details []string) {
	bad := func(detail string) { details = append(details, detail) }
	raw, err := json.Marshal(sent)
	var arguments any
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber() // one that no float holds is for timeoutMs to refuse
		err = dec.Decode(&arguments)
	}
	if err != nil {
		bad("arguments: they are no JSON")
		return run, details
	}
	given, ok := arguments.(map[string]any)
	if !ok && arguments != nil {
		bad("arguments: an object is expected, not " + kindOf(arguments))
		return run, details
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch value := given[name]; name {
		case "code":
			if run.Code, ok = value.(string); !ok && value != nil {
				bad("code: the script is expected, a string, not " + kindOf(value))
			}
		case "timeoutMs":
			number, _ := value.(json.Number)
			ms, err := number.Float64()
			switch {
			case value == nil: // as if it were left out, as with the other members
			case err != nil && !math.IsInf(ms, 1), !(ms >= 1), ms != math.Trunc(ms):
				bad("timeoutMs: a whole number of milliseconds from 1 on is expected" + notThat(value))
			default:
				run.Timeout = time.Duration(min(ms, float64(maxScriptTimeout/time.Millisecond))) * time.Millisecond
			}
		case "language":
			if run.Language, ok = value.(string); !ok && value != nil {
				bad(`language: "javascript" or "typescript" is expected, not ` + kindOf(value))
			}
		default:
			bad(messages.Cut(name, 100) + ": no such argument; there are code, timeoutMs and language" + misplaced(given, name))
		}
	}
	if given["code"] == nil {
		bad("code: the script is required, a string")
	}
	return run, details
}

// misplaced guesses what an argument that there is not was meant to be.
func misplaced(given map[string]any, name string) string {
	if _, text := given[name].(string); text && given["code"] == nil {
		return `, and the script goes into "code"`
	}
	return ""
}

// notThat says what was given in place of a number that is none, and how it is
// written.
func notThat(value any) string {
	switch v := value.(type) {
	case string:
		d, err := time.ParseDuration(v)
		if ms, numErr := strconv.ParseUint(v, 10, 31); numErr == nil {
			d, err = time.Duration(ms)*time.Millisecond, nil
		}
		if err == nil && d >= time.Millisecond {
			return fmt.Sprintf(", not a string: write %d", d.Milliseconds())
		}
		return ", not a string: write 5000 for five seconds"
	case json.Number:
		return ", not " + messages.Cut(v.String(), 100)
	}
	return ", not " + kindOf(value)
}

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	default:
		return "a number"
	}
}

// handleExecute runs a script for a client. The request's context ends with the
// client's cancellation and with its connection, and the script with it.
func (e *Engine) handleExecute(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	run, failure := executeRequest(req)
	if failure != nil {
		return errorResult(failure), nil
	}
	caller := front.CallerFromContext(ctx)
	if caller == nil {
		return errorResult(errNobody), nil
	}
	if caller.WantsProgress() {
		run.Progress = func(p RunProgress) { caller.Progress(progressParams(p)) }
	}
	client := scriptClient{caller.Client(), caller.Can(), caller.Log(), caller.Shared()}
	result, err := e.runScript(ctx, run, messages.Meta{Trace: caller.Call(), Session: caller.Session()}, client,
		e.telemetry.BeginScriptRequest(caller.TraceContext(), caller.Transport(), caller.Call()))
	return e.executed(result, err, caller.Session())
}

// executed is the answer to a client.
func (e *Engine) executed(r *RunResult, err error, session uint64) (*mcp.CallToolResult, error) {
	if err != nil {
		return errorResult(asError(err)), nil
	}
	answer := e.answerOf(r, func(value json.RawMessage) string { return e.core.KeepResult(session, value) })
	text, err := compact(answer)
	if err != nil {
		return nil, fmt.Errorf("encode the answer of mcp_execute: %w", err)
	}
	result := mcp.NewToolResultText(string(text))
	result.IsError = answer.Error != nil
	return result, nil
}

// counted is a number with the word for what it counts.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// progressParams says how far a script is. MCP wants a number that grows.
func progressParams(p RunProgress) json.RawMessage {
	message := counted(p.Calls, "call", "calls") + " done"
	if p.Last != "" {
		message += "; " + messages.Cut(strings.ReplaceAll(p.Last, "\n", " "), 200)
	}
	raw, _ := json.Marshal(map[string]any{"progress": p.Calls + p.Lines, "message": message}) // plain values always marshal
	return raw
}
