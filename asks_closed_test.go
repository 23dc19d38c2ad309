package metamcp_test

import (
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// A tool that is closed while its call waits for a person is not called again with what
// the person says.
func TestClosedWhileAPersonIsAsked(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]any{
		"a rule":   {"toolRules": []any{map[string]any{"pattern": []string{"elicit"}, "enabled": false}}},
		"disabled": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			flags := map[string][]string{"x": {"--era", "modern"}}
			e := openConfig(t, dir, children(flags, nil))
			c := connectClient(t, e, &asked{caps: allCapabilities, reply: func(q rpcLine) string {
				cfg := children(flags, settings)
				if settings == nil {
					cfg["mcpServers"].(map[string]any)["x"].(map[string]any)["disabled"] = true
				}
				if _, err := writeConfig(dir, cfg); err != nil {
					t.Error(err)
				}
				if err := e.Reload(t.Context()); err != nil {
					t.Error(err)
				}
				return person(q)
			}})
			want := messages.CodeToolDisabled
			if settings == nil {
				want = messages.CodeConfiguration
			}
			l := c.call("x", "elicit", `{"message":"one"}`)
			if text := textIn(t, l); !strings.Contains(text, string(want)) || !strings.Contains(text, "check what it may have done") {
				t.Errorf("%s; want %s", text, want)
			}
			if n := c.questions(); n != 1 {
				t.Errorf("%d questions", n)
			}
		})
	}
}
