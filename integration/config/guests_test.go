package config

import (
	"strings"
	"testing"
)

// Guests come last: who has their name already wins, and a broken one is named.
func TestGuests(t *testing.T) {
	w := newWorld(t)
	file := w.file("mcp.json", `{"mcpServers": {"mine": {"command": "a"}, "off": {"command": "b", "disabled": true}}}`)
	guest := func(text string) Guest { return Guest{From: "Cursor (/home/x/mcp.json)", Text: []byte(text)} }
	src := w.sources(file)
	src.Guests = []Guest{
		guest(`{"mcpServers": {"mine": {"command": "other"}, "off": {"command": "other"}, "new": {"command": "c"}}}`),
		guest(`{"mcpServers": {"new": {"command": "second"}, "broken": {}}, "metamcp": {"pool": {"poolSize": 1}}}`),
		guest(`{"mcpServers": `),
		guest(`{"mcpServers": 7}`),
		guest(`{}`),
	}
	cfg, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Server("mine").Command + cfg.Server("new").Command; got != "ac" || !cfg.Server("off").Disabled || len(cfg.Servers) != 4 {
		t.Errorf("%s, %d servers", got, len(cfg.Servers))
	}
	if cfg.Server("broken").Err == nil || cfg.Settings.Pool.PoolSize != 20 {
		t.Errorf("%+v, pool %d", cfg.Server("broken"), cfg.Settings.Pool.PoolSize)
	}
	if own, guest := cfg.Server("mine"), cfg.Server("new"); own.Guest || !guest.Guest || !strings.Contains(own.TurnOn(), "metamcp enable mine") || strings.Contains(guest.TurnOn(), "enable") {
		t.Errorf("turned on %s, and %s", own.TurnOn(), guest.TurnOn())
	}
	if s := cfg.Server("new").Source; !strings.HasPrefix(s, "Cursor (/home/x/mcp.json)") {
		t.Error(s)
	}
	if len(cfg.Problems) != 2 { // the broken server, and the guest that is not JSON
		t.Errorf("%v", cfg.Problems)
	}
	w.file("mcp.json", `{"mcpServers": {"mine": {"command": "a2"}, "new": {"command": "own"}}}`)
	if cfg, err = Reload(src, cfg); err != nil || cfg.Server("new").Command != "own" || cfg.Server("off").Command != "other" {
		t.Errorf("read again: %v", err)
	}
}
