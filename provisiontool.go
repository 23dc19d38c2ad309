package metamcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/messages"
)

const toolProvision = actors.ProvisionTool

const provisionSchema = `{"type":"object","properties":{` +
	`"intent":{"type":"string","description":"a need, or an exact name"},` +
	`"context":{"type":"string"},` +
	`"autoProvision":{"type":"boolean","description":"install it if trusted"}},"required":["intent"],"additionalProperties":false}`

const provisionDescription = "Get a server for what no tool here does: find one, and install it or say how."

// newProvisionTool is the tool as clients see it. It adds and never changes
// what is there, and once what is needed is there it does no more.
func newProvisionTool() mcp.Tool {
	t := mcp.NewToolWithRawSchema(toolProvision, provisionDescription, json.RawMessage(provisionSchema))
	readOnly, destructive, idempotent, openWorld := false, false, true, true
	t.Annotations = mcp.ToolAnnotation{
		Title: "Get a server", ReadOnlyHint: &readOnly, DestructiveHint: &destructive, IdempotentHint: &idempotent, OpenWorldHint: &openWorld,
	}
	return t
}

// handleProvision gets a server for a client. The request's context ends with
// the client's cancellation and with its connection.
func (e *Engine) handleProvision(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ask, failure := provisionArguments(req)
	if failure != nil {
		return errorResult(failure), nil
	}
	caller := front.CallerFromContext(ctx)
	if caller == nil {
		return errorResult(errNobody), nil
	}
	if caller.WantsProgress() {
		told := 0 // a request that is made again goes on counting
		ask.Progress = func(s ProvisionStep) {
			told++
			s.Number = told
			caller.Progress(stepParams(s))
		}
	}
	a, err := e.provisionFor(ctx, caller, ask)
	if err != nil {
		return errorResult(asError(err)), nil
	}
	text, err := compact(a)
	if err != nil {
		return nil, fmt.Errorf("encode the answer of mcp_provision: %w", err)
	}
	return mcp.NewToolResultText(string(text)), nil
}

// errNobody refuses what has no caller: who is not known has no rights.
var errNobody = &Error{
	Code: messages.CodeValidation, Message: "the request has no caller, so that nobody is known who may make it; nothing was done",
	Hint: "Send it as a tools/call of a client.",
}

func provisionArguments(req mcp.CallToolRequest) (ask ProvisionRequest, failure *Error) {
	raw, err := json.Marshal(req.GetRawArguments())
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		err = dec.Decode(&ask)
	}
	if err != nil {
		return ask, &Error{
			Code: messages.CodeValidation, Message: "the arguments do not fit: " + misfit(err), Cause: err,
			Hint: `Send {"intent": "what you need"}; optional are "context", a string, and "autoProvision", true or false.`,
		}
	}
	return ask, nil
}

// stepParams is a step as MCP tells of progress.
func stepParams(s ProvisionStep) json.RawMessage {
	raw, _ := json.Marshal(map[string]any{"progress": s.Number, "message": s.Text}) // plain values always marshal
	return raw
}
