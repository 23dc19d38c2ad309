package metamcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// headerMark is how a schema says that an argument is in a header as well.
var headerMark = []byte("x-mcp-header")

// checkHeaders refuses a call of an exposed tool over HTTP whose headers say
// something else than its arguments: what stands between client and host may have
// decided by the headers. name is the tool's for clients; lookup returns a header,
// and whether there is one. For a tool that is not known yet it waits as the call would,
// which then finds it known.
func (x *exposure) checkHeaders(ctx context.Context, name string, params []byte, lookup func(header string) (string, bool)) error {
	if !x.tools || x.ours[name] {
		return nil
	}
	if _, ok := x.findTool(ctx, name); !ok {
		return nil // the call itself says so
	}
	definition := x.toolSet().named.definition(name)
	if !bytes.Contains(definition, headerMark) {
		return nil
	}
	tool := mcp.Tool{Name: name, RawInputSchema: jsonrpc.Get(definition, "inputSchema")}
	if sound := mcp.ValidateParamHeaderAnnotations(&tool) == nil; !sound {
		return nil // clients leave such a tool out, or do not heed what is wrong
	}
	return mcp.ValidateParamHeadersLookup(lookup, &tool, params)
}

// definition is that of a thing that is listed, as its server has it; nil: there
// is none.
func (s *namedSet) definition(as string) json.RawMessage {
	i, ok := slices.BinarySearchFunc(s.list, as, func(e exposed, as string) int { return cmp.Compare(e.as, as) })
	if !ok {
		return nil
	}
	return s.list[i].raw
}
