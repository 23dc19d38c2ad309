package front

import (
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// explainUnknown says in the answer to a call of a tool that we do not have
// how tools are called: a model that saw one in an answer easily takes its name
// for one of ours.
func (c *connection) explainUnknown(method string, answer mcp.JSONRPCMessage) mcp.JSONRPCMessage {
	if method != "tools/call" {
		return answer
	}
	e, ok := answer.(mcp.JSONRPCError)
	if !ok || e.Error.Code != mcp.INVALID_PARAMS || !strings.HasSuffix(e.Error.Message, server.ErrToolNotFound.Error()) {
		return answer
	}
	what := strings.TrimSuffix(e.Error.Message, ": "+server.ErrToolNotFound.Error())
	e.Error.Message = what + `: tools of the servers behind this one are called with ` + c.opts.Tool + ` {"server", "tool", "args"}; tools/list has what can be called directly`
	return e
}
