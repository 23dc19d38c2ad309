package front

import (
	"context"
	"runtime/debug"

	"github.com/mark3labs/mcp-go/mcp"
)

// handle lets mcp-go answer one request; l is set where that subscribes.
func (c *connection) handle(ctx context.Context, e *Entry, in *incoming, l *listener) {
	defer c.running.Done()
	defer func() { <-c.slots }()
	defer e.Stop()
	settle := c.peer.settle
	if l != nil {
		stop := make(chan struct{})
		defer close(stop)
		go l.pump(stop)
		settle = l.settle
	}
	answer, ok := c.mcpgo(ctx, in)
	settle(c.ctx.Done())
	if l != nil {
		l.end()
	}
	write := func(e *Entry) {
		if !ok {
			refuse(e.out, e.ID, codeInternal, "the server failed while it worked on the request; its log says how")
			return
		}
		_ = e.out.Answer(answerOf(e.ID, answer)) // the session ends when the output fails
	}
	if c.finish(e) {
		write(e)
	} else {
		c.finished(e, write)
	}
}

// mcpgo lets mcp-go take one message. It parses once more, so it gets what was
// read here and not the client's bytes. A handler that panics is logged, and the
// others live on; ok is then false.
func (c *connection) mcpgo(ctx context.Context, in *incoming) (answer mcp.JSONRPCMessage, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			c.opts.Log.Error("a handler panicked", "session", c.opts.Session, "method", in.Method, "panic", r, "stack", string(debug.Stack()))
		}
	}()
	return c.explainUnknown(in.Method, c.opts.MCP.HandleMessage(ctx, in.line())), true
}
