package metamcp

import (
	"context"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// What reaches a handler without a caller does nothing: who is not known has no
// rights. No engine is behind it that could do anything.
func TestNobodyHasNoRights(t *testing.T) {
	var e Engine
	for name, handle := range map[string]func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error){
		toolExecute: e.handleExecute, toolProvision: e.handleProvision,
	} {
		req := mcp.CallToolRequest{}
		req.Params.Arguments = map[string]any{"code": "return 1"}
		if name == toolProvision {
			req.Params.Arguments = map[string]any{"intent": "x", "autoProvision": true}
		}
		res, err := handle(t.Context(), req)
		if err != nil || !res.IsError || !strings.Contains(res.Content[0].(mcp.TextContent).Text, "no caller") {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
}
