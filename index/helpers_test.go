package index

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// definition writes a tool definition as a server would.
func definition(name, description, schema string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":%s}`, name, description, schema)
}

const browserSchema = `{"type":"object","properties":{"url":{"type":"string","description":"Page to open"},"fullPage":{"type":"boolean","default":false}},"required":["url"],"additionalProperties":false}`

func toolset(tb testing.TB, server string, definitions ...string) *messages.Toolset {
	tb.Helper()
	page := `{"tools":[`
	for i, d := range definitions {
		if i > 0 {
			page += ","
		}
		page += d
	}
	page += `]}`
	tools, skipped, err := ParseTools(server, json.RawMessage(page))
	if err != nil || skipped != 0 {
		tb.Fatalf("ParseTools: %v, skipped %d", err, skipped)
	}
	return &messages.Toolset{Server: server, Tools: tools, Live: true}
}

// verbs and nouns make up names and descriptions of generated tools.
var (
	verbs = []string{"create", "list", "get", "delete", "search", "update", "send", "read", "open", "close"}
	nouns = []string{"issue", "branch", "file", "message", "calendar_event", "invoice", "screenshot", "page", "contact", "database"}
)

// generated returns a catalog of servers with ten tools each.
func generated(tb testing.TB, servers int) *Catalog {
	tb.Helper()
	var c *Catalog
	for s := range servers {
		var definitions []string
		for i := range 10 {
			verb, noun := verbs[(s+i)%10], nouns[(s*7+i*3)%10]
			definitions = append(definitions, definition(
				fmt.Sprintf("%s_%s_%d", verb, noun, i),
				fmt.Sprintf("Use this to %s one %s in the workspace. Returns the identifier, its state and when it was changed last. Server number %d of the fleet, item %d.", verb, noun, s, i),
				browserSchema))
		}
		c = c.With(toolset(tb, fmt.Sprintf("server-%05d", (s*7919)%servers), definitions...), Labels{})
	}
	return c
}
