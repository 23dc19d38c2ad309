package metamcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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

const executeDescription = "Run JavaScript or TypeScript that uses many tools at once: loops, filters, Promise.all. " +
	"`await servers.NAME.TOOL(args)` gives a tool's value or throws {code, server, tool}; `return` gives the answer. " +
	"Also servers.list(), discover(query), sleep(ms), console. No files, network or imports."

// executeArguments are those of mcp_execute.
type executeArguments struct {
	Code      *string      `json:"code"`
	TimeoutMs *json.Number `json:"timeoutMs"`
	Language  string       `json:"language"`
}

// maxScriptTimeout is the longest timeout that is believed; a longer one is cut.
const maxScriptTimeout = 24 * time.Hour

func executeRequest(req mcp.CallToolRequest) (RunRequest, *Error) {
	bad := func(message string) (RunRequest, *Error) {
		return RunRequest{}, &Error{
			Code: messages.CodeValidation, Message: "the arguments do not fit: " + message,
			Hint: `Send {"code": "return await servers.NAME.TOOL({…})"}; timeoutMs and language are optional.`,
		}
	}
	var args executeArguments
	raw, err := json.Marshal(req.GetRawArguments())
	if err == nil && string(raw) != "null" {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		err = dec.Decode(&args)
	}
	switch {
	case err != nil:
		return bad(err.Error())
	case args.Code == nil:
		return bad("code is missing, a string")
	}
	run := RunRequest{Code: *args.Code, Language: args.Language}
	if args.TimeoutMs != nil {
		ms, err := args.TimeoutMs.Float64()
		if err != nil || !(ms > 0) {
			return bad("timeoutMs: a number of milliseconds above 0 is expected")
		}
		run.Timeout = min(time.Duration(min(ms, float64(maxScriptTimeout/time.Millisecond))*float64(time.Millisecond)), maxScriptTimeout)
	}
	return run, nil
}

// handleExecute runs a script for a client. The request's context ends with the
// client's cancellation and with its connection, and the script with it.
func (e *Engine) handleExecute(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	run, failure := executeRequest(req)
	if failure != nil {
		return errorResult(failure), nil
	}
	caller := front.CallerFromContext(ctx)
	if caller == nil { // mcp-go was called by something else than the front
		result, err := e.Run(ctx, run)
		return e.executed(result, err, 0)
	}
	if caller.WantsProgress() {
		run.Progress = func(p RunProgress) { caller.Progress(progressParams(p)) }
	}
	result, err := e.runScript(ctx, run, messages.Meta{Trace: caller.Call(), Session: caller.Session()},
		e.telemetry.BeginScriptRequest(caller.TraceContext(), caller.Call()))
	return e.executed(result, err, caller.Session())
}

// executed is the answer to a client.
func (e *Engine) executed(r *RunResult, err error, session uint64) (*mcp.CallToolResult, error) {
	if err != nil {
		return errorResult(asError(err)), nil
	}
	answer := e.answerOf(r, func(value json.RawMessage) string { return e.core.KeepResult(session, value) })
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(answer); err != nil {
		return nil, fmt.Errorf("encode the answer of mcp_execute: %w", err)
	}
	result := mcp.NewToolResultText(strings.TrimSuffix(text.String(), "\n"))
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
		message += "; " + cutBytes(strings.ReplaceAll(p.Last, "\n", " "), 200)
	}
	raw, _ := json.Marshal(map[string]any{"progress": p.Calls + p.Lines, "message": message}) // plain values always marshal
	return raw
}
