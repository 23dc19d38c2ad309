package config

import (
	"strings"
	"testing"
)

// Pings are for instances that are kept, and whoever asks for them otherwise is
// told that nothing comes of it.
func TestHealthWithoutKeepAlive(t *testing.T) {
	for lifecycle, warned := range map[string]bool{"": true, `,"lifecycle":"ephemeral"`: true, `,"lifecycle":"keep-alive"`: false} {
		w := newWorld(t)
		cfg, err := Load(w.sources(w.file("mcp.json", `{"mcpServers":{"a":{"command":"x","healthIntervalMs":1000`+lifecycle+`}}}`)))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, p := range cfg.Warnings {
			found = found || strings.Contains(p.Message, "healthIntervalMs does nothing")
		}
		if found != warned {
			t.Errorf("with %q the warnings are %v", lifecycle, cfg.Warnings)
		}
	}
}
