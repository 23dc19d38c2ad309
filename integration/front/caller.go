package front

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

// Caller is the request that a handler of mcp-go works on. Its methods are safe
// for any goroutine, also once the request is over.
type Caller struct {
	c       *connection
	e       *Entry
	tool    string
	context messages.TraceContext
	can     messages.ClientCan
	log     messages.LogLevel
}

type callerKey struct{}

// CallerFromContext returns the request that a tool's handler was called for,
// or nil where it did not come through this package.
func CallerFromContext(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// OnlyCalled is for the tools of mcp-go: a handler runs for a tools/call that came
// through this package, and only the one of the tool that was named here.
// Whatever else reaches mcp-go has no caller, and no caller has rights.
func OnlyCalled(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		caller := CallerFromContext(ctx)
		if caller == nil || caller.tool != req.Params.Name {
			return nil, errNoCaller
		}
		return next(ctx, req)
	}
}

var errNoCaller = errors.New("the call did not come as a tools/call of this tool, so nobody is known who may make it; nothing was done")

// Session is the number of the client connection.
func (c *Caller) Session() uint64 { return c.c.opts.Session }

// Call is the number of the request, as [NextCall] gives them.
func (c *Caller) Call() uint64 { return c.e.Call }

// Era is the protocol generation of the request.
func (c *Caller) Era() messages.Era { return c.e.Era }

// Transport is how the request came; see [Request].
func (c *Caller) Transport() messages.Transport { return c.e.transport() }

// TraceContext is the trace context that the request came with.
func (c *Caller) TraceContext() messages.TraceContext { return c.context }

// WantsProgress says whether the client gave a token for progress.
func (c *Caller) WantsProgress() bool { return c.e.Token != nil }

// Progress writes a progress notification with these params, one JSON object
// without a progressToken. Where the client wants none, or the request is over,
// it does nothing. It does not block.
func (c *Caller) Progress(params json.RawMessage) {
	if c.e.Token == nil {
		return
	}
	out, token, live := c.c.progress(c.e)
	if !live {
		return
	}
	withLine(func(dst []byte) []byte {
		dst = AppendProgress(dst, token, params)
		_ = out.Write(dst) // the session ends when the output fails
		return dst
	})
}
