package doctor

import (
	"path/filepath"
	"strings"
)

// format is how a client's file names its servers.
type format uint8

const (
	mcpServers     format = iota // {"mcpServers": {NAME: {…}}}, and for Claude Code under "projects"
	vscodeServers                // {"servers": {NAME: {…}}}
	contextServers               // Zed's {"context_servers": {NAME: {…}}}
	codexTables                  // TOML: [mcp_servers.NAME]
)

// place is where a client keeps its configuration.
type place struct {
	client string // for people
	path   string
	format format
	// menu says that the client is started from a menu, so that its PATH is
	// not that of a terminal.
	menu bool
}

// places are where the known clients keep their configuration on a system.
// Folders that the environment does not name are those of the client's
// documentation.
func (p *Patient) places() []place {
	join := func(parts ...string) string {
		if p.GOOS == "windows" {
			return strings.Join(parts, `\`)
		}
		return strings.Join(parts, "/")
	}
	or := func(variable, fallback string) string {
		if v := p.Getenv(variable); v != "" {
			return v
		}
		return fallback
	}
	// apps is where programs with windows keep their settings.
	var apps, zed string
	switch p.GOOS {
	case "windows":
		apps = or("APPDATA", join(p.Home, "AppData", "Roaming"))
		zed = join(apps, "Zed", "settings.json")
	case "darwin":
		apps = join(p.Home, "Library", "Application Support")
		zed = join(p.Home, ".config", "zed", "settings.json")
	default:
		apps = or("XDG_CONFIG_HOME", join(p.Home, ".config"))
		zed = join(apps, "zed", "settings.json")
	}
	return []place{
		{"Claude Desktop", join(apps, "Claude", "claude_desktop_config.json"), mcpServers, true},
		{"Claude Code", join(or("CLAUDE_CONFIG_DIR", p.Home), ".claude.json"), mcpServers, false},
		{"Claude Code (project)", join(p.Cwd, ".mcp.json"), mcpServers, false},
		{"Cursor", join(p.Home, ".cursor", "mcp.json"), mcpServers, true},
		{"Cursor (project)", join(p.Cwd, ".cursor", "mcp.json"), mcpServers, true},
		{"VS Code", join(apps, "Code", "User", "mcp.json"), vscodeServers, true},
		{"VS Code (project)", join(p.Cwd, ".vscode", "mcp.json"), vscodeServers, true},
		{"Windsurf", join(p.Home, ".codeium", "windsurf", "mcp_config.json"), mcpServers, true},
		{"Zed", zed, contextServers, true},
		{"Codex", join(or("CODEX_HOME", join(p.Home, ".codex")), "config.toml"), codexTables, false},
	}
}

// isBare reports whether a command has no folder.
func isBare(command string) bool { return filepath.Base(command) == command && !isPath(command) }
