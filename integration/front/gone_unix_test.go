//go:build unix

package front

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

// Work whose answer nobody can read any more is not waited for once the input
// has ended; calls of the spliced tool are, since they may take effect.
func TestNobodyReads(t *testing.T) {
	started, stopped, calls := make(chan struct{}, 1), make(chan struct{}), make(chan Request, 1)
	s := start(t, Options{
		MCP: newMCP(map[string]server.ToolHandlerFunc{"hangs": func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			defer close(stopped)
			return hangs(started)(ctx, r)
		}}), DrainTimeout: patience,
		Engine: &fakeEngine{call: func(r Request) { calls <- r }},
	})
	s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hangs"}}`, callLine(2, `{"server":"s","tool":"t"}`))
	<-started
	r := <-calls
	_ = s.in.Close()
	_ = s.out.Close()
	select {
	case <-stopped:
	case err := <-s.ended:
		t.Fatalf("the session ended with a call in flight: %v", err)
	case <-time.After(patience / 2):
		t.Fatal("the work goes on")
	}
	if r.Cancelled.Load() {
		t.Error("the call was cancelled")
	}
	r.Reply.Answer(&messages.Answer{Call: r.Call, Result: []byte(`{"content":[]}`)})
	if err := s.wait(); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
}
