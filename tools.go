package metamcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/messages"
)

// The tools that a client sees.
const (
	toolDiscover = "mcp_discover"
	toolCall     = "mcp_call"
)

// instructions is what a client reads before it lists anything: some load
// nothing else until a tool is needed.
const instructions = `metamcp stands in front of many MCP servers. ` +
	`Find tools with mcp_discover {"query": "what you need"}; the best matches come with their input schema. ` +
	`Run one with mcp_call {"server", "tool", "args"}. ` +
	`For several steps, many calls or large results write code for mcp_execute: only what it returns comes back. ` +
	`mcp_discover without arguments lists the servers; with server and tool it shows one tool whole. ` +
	`Where nothing fits, mcp_provision {"intent"} finds a server to add; "autoProvision": true installs one that the user trusts and that you name exactly. ` +
	`Servers start by themselves on first use. An error says what to do next.`

const discoverSchema = `{"type":"object","properties":{` +
	`"query":{"type":"string","description":"what you need"},` +
	`"server":{"type":"string","description":"only this server"},` +
	`"tool":{"type":"string","description":"with server: this one"},` +
	`"limit":{"type":"integer","minimum":1,"maximum":100},` +
	`"detail":{"type":"string","enum":["brief","full"],"description":"full: all schemas and signatures"}},"additionalProperties":false}`

const callSchema = `{"type":"object","properties":{` +
	`"server":{"type":"string"},` +
	`"tool":{"type":"string"},` +
	`"args":{"type":"object","description":"the tool's own arguments"},` +
	`"timeoutMs":{"type":"integer","minimum":1}},"required":["server","tool"],"additionalProperties":false}`

// newMCPServer builds the mcp-go server that answers everything but mcp_call,
// whose answers the front splices from the child's bytes.
func (e *Engine) newMCPServer() *server.MCPServer {
	s := server.NewMCPServer("metamcp", e.opts.Version,
		append(e.expose.capabilities(),
			server.WithInstructions(e.expose.instructions()),
			server.WithLogging(),
			server.WithToolHandlerMiddleware(front.OnlyCalled),
		)...,
	)
	discover := mcp.NewToolWithRawSchema(toolDiscover,
		"Find tools behind metamcp by query, or list servers, a server's tools, or one tool with its schema.",
		json.RawMessage(discoverSchema))
	discover.Annotations = annotations("Discover tools", true, false)
	s.AddTool(discover, e.handleDiscover)

	call := mcp.NewToolWithRawSchema(toolCall, "Run a tool of a server behind metamcp; its result comes back unchanged.", json.RawMessage(callSchema))
	call.Annotations = annotations("Call a tool", false, true)
	// Reached only for a call that the front could not take apart.
	s.AddTool(call, func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return errorResult(&Error{Code: messages.CodeValidation, Message: "the call has the wrong form", Hint: `Send {"server": "...", "tool": "...", "args": {...}}.`}), nil
	})

	s.AddTool(newProvisionTool(), e.handleProvision)

	execute := mcp.NewToolWithRawSchema(toolExecute, executeDescription, json.RawMessage(executeSchema))
	execute.Annotations = annotations("Run code", false, true)
	s.AddTool(execute, e.handleExecute)
	return s
}

// annotations says what a client may expect; what mcp_call does depends on the
// tool behind it, so it claims nothing mild.
func annotations(title string, readOnly, openWorld bool) mcp.ToolAnnotation {
	destructive, idempotent := !readOnly, readOnly
	return mcp.ToolAnnotation{Title: title, ReadOnlyHint: &readOnly, DestructiveHint: &destructive, IdempotentHint: &idempotent, OpenWorldHint: &openWorld}
}

func (e *Engine) handleDiscover(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ask, failure := discoverArguments(req)
	if failure != nil {
		return errorResult(failure), nil
	}
	var session uint64
	if caller := front.CallerFromContext(ctx); caller != nil {
		session = caller.Session()
	}
	answer, err := e.discoverInTurn(ctx, session, ask)
	if err != nil {
		return errorResult(e.secrets.Load().Error(asError(err))), nil
	}
	text, err := compact(answer)
	if err != nil {
		return nil, fmt.Errorf("encode the answer of mcp_discover: %w", err)
	}
	// Servers write names, versions and descriptions themselves.
	text, _ = e.secrets.Load().Result(text)
	return mcp.NewToolResultText(string(text)), nil
}

func discoverArguments(req mcp.CallToolRequest) (ask DiscoverRequest, failure *Error) {
	var given struct {
		Query  string      `json:"query"`
		Server string      `json:"server"`
		Tool   string      `json:"tool"`
		Limit  wholeNumber `json:"limit"`
		Detail string      `json:"detail"`
	}
	raw, err := json.Marshal(req.GetRawArguments())
	if err == nil && string(raw) != "null" {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		err = dec.Decode(&given)
	}
	if err != nil {
		return ask, &Error{
			Code: messages.CodeValidation, Message: "the arguments do not fit: " + misfit(err), Cause: err,
			Hint: "All arguments are optional: query, server, tool and detail are strings, limit is a number.",
		}
	}
	return DiscoverRequest{Query: given.Query, Server: given.Server, Tool: given.Tool, Limit: int(given.Limit), Detail: given.Detail}, nil
}

// wholeNumber is an integer as JSON Schema has it, however it is written: 3.0 is one too.
type wholeNumber int

// UnmarshalJSON takes null for what is not given, as with other arguments.
func (n *wholeNumber) UnmarshalJSON(raw []byte) error {
	const exact = 1 << 53 // so far a float64 holds all of them
	var value any
	err := json.Unmarshal(raw, &value)
	v, number := value.(float64)
	switch {
	case err == nil && value == nil:
	case err == nil && !number:
		return &json.UnmarshalTypeError{Value: kindOf(value), Type: reflect.TypeFor[int]()}
	case err != nil || v != math.Trunc(v) || math.Abs(v) > exact: // one that no float holds, too
		return &json.UnmarshalTypeError{Value: "number " + messages.Cut(string(raw), 40), Type: reflect.TypeFor[int]()}
	default:
		*n = wholeNumber(v)
	}
	return nil
}

// misfit says in words of JSON what encoding/json says in those of Go.
func misfit(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		want := map[reflect.Kind]string{
			reflect.String: "a string", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Struct: "an object",
		}[kind.Type.Kind()]
		if want == "" {
			want = "something else"
		}
		what := strconv.Quote(kind.Field)
		if kind.Field == "" {
			what = "what is given as arguments"
		}
		return what + " has to be " + want + ", not of the kind " + kind.Value
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return "there is no argument " + field
	}
	return err.Error()
}

// cancelled is what a caller hears whose ctx has ended: CANCELLED in place of the error
// of ctx, with what was given up. Any other error stays as it is.
func cancelled(ctx context.Context, err error, what string) error {
	if cause := ctx.Err(); cause != nil && errors.Is(err, cause) {
		return &Error{Code: messages.CodeCancelled, Cause: cause, Message: what + ": " + cause.Error()}
	}
	return err
}

func asError(err error) *Error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // one that is wrapped would lose the words around it
		return e
	}
	return &Error{Code: messages.CodeToolExecution, Message: err.Error(), Cause: err}
}

// errorResult is an error as a tool result, which a model can read and act on;
// a JSON-RPC error would end in the client's log.
func errorResult(e *Error) *mcp.CallToolResult {
	text, _ := json.Marshal(map[string]any{"error": errorView(e)}) // plain fields always marshal
	r := mcp.NewToolResultText(string(text))
	r.IsError = true
	return r
}

// errorView is an error with its times in numbers that a model can use.
func errorView(e *Error) any {
	type plain Error
	return struct {
		*plain
		RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
	}{(*plain)(e), int64(e.RetryAfter / time.Millisecond)}
}
