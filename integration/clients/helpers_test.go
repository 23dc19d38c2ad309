package clients

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Keys that stand in the clients' files and must never be shown.
const (
	tokenValue  = "ghp_0123456789abcdefghij0123456789abcdef"
	plainSecret = "correct horse battery"
	argSecret   = "hunter2hunter2"
)

// files are the files of all ten clients below a home folder, as they look
// after some use.
var files = map[string]string{
	"claude-desktop .config/Claude/claude_desktop_config.json": `{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "files": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data", "${literal}"]
    }
  }
}
`,
	"claude-code .claude.json": `{
  "numStartups": 184,
  "oauthAccount": { "accessToken": "` + tokenValue + `" },
  "mcpServers": {
    "github": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github"],
      "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "` + tokenValue + `", "LEVEL": "${LEVEL:-info}" },
      "timeout": 90000,
      "alwaysLoad": true
    },
    "docs": { "type": "sse", "url": "https://docs.example.com/events", "headers": { "Authorization": "Bearer ` + plainSecret + `" } },
    "socket": { "type": "ws", "url": "wss://example.com" }
  },
  "projects": {
    "@CWD": { "history": ["x"], "mcpServers": { "local": { "command": "local-server" } } },
    "/elsewhere": { "mcpServers": { "other": { "command": "other-server" } } }
  }
}
`,
	"cursor .cursor/mcp.json": `{
    // of mine
    "mcpServers": {
        "fs": { "command": "/usr/bin/npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data", "$${literal}"] },
        "github": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github"],
            "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "${env:OTHER_ACCOUNT}" },
            "envFile": ".env"
        }, /* last */
    },
}
`,
	"vscode .config/Code/User/mcp.json":          "\xef\xbb\xbf{\r\n\t// asked for\r\n\t\"inputs\": [{ \"type\": \"promptString\", \"id\": \"api-key\", \"description\": \"API key\", \"password\": true }],\r\n\t\"servers\": {\r\n\t\t\"weather\": {\r\n\t\t\t\"type\": \"stdio\",\r\n\t\t\t\"command\": \"${userHome}/bin/weather\",\r\n\t\t\t\"args\": [\"--key\", \"${input:api-key}\", \"${workspaceFolder}\"],\r\n\t\t\t\"dev\": { \"watch\": \"x\" }\r\n\t\t}\r\n\t}\r\n}\r\n",
	"windsurf .codeium/windsurf/mcp_config.json": `{"mcpServers":{"remote":{"serverUrl":"https://api.example.com/mcp","headers":{"Authorization":"Bearer ${env:API_TOKEN}"},"disabledTools":["drop"]}}}`,
	"zed .config/zed/settings.json": `// Zed settings
{
  "theme": "One Dark",
  "context_servers": {
    "old": { "command": { "path": "old-server", "args": ["--stdio"], "env": { "DB_PASSWORD": "` + plainSecret + `" } }, "settings": {} },
    "extension": { "source": "extension", "enabled": true, "settings": {} },
    "git": { "source": "custom", "enabled": false, "command": "uvx", "args": ["mcp-server-git"], "env": {} }
  },
  "vim_mode": true
}
`,
	"codex .codex/config.toml": `# Codex
model = "gpt-5"

[mcp_servers.git]
command = "uvx"
args = ["mcp-server-git"] # the usual one

[mcp_servers.search]
command = 'search-server'
args = ["--api-key", "` + argSecret + `"]
env_vars = ["SEARCH_REGION"]
cwd = "/srv"
startup_timeout_sec = 20
tool_timeout_sec = 0.5
enabled_tools = ["find"]

[mcp_servers.search.env]
SEARCH_SECRET = "` + plainSecret + `"

[mcp_servers.linear]
url = "https://mcp.linear.example/mcp"
bearer_token_env_var = "LINEAR_TOKEN"
http_headers = { "X-Team" = "blue" }
env_http_headers = { "X-Key" = "LINEAR_KEY" }

# the end
[tui]
notifications = true
`,
	"opencode .config/opencode/opencode.jsonc": `{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    // bun
    "local": { "type": "local", "command": ["bun", "x", "my-mcp"], "environment": { "KEY": "{env:MY_KEY}", "FILE": "{file:~/.key}" }, "enabled": true, "timeout": 60000 },
    "far": { "type": "remote", "url": "https://far.example.com/mcp", "headers": { "X": "{env:FAR}" }, "oauth": false },
  },
}
`,
	"gemini .gemini/settings.json": `{
  "security": { "auth": { "selectedType": "oauth-personal" } },
  "mcpServers": {
    "events": { "url": "https://events.example.com/x" },
    "stream": { "httpUrl": "https://stream.example.com/x", "timeout": 5000, "trust": true },
    "py": { "command": "python3", "args": ["-m", "server", "$5", "$lower"], "env": { "API_KEY": "$MY_KEY", "B": "${B_KEY}" }, "cwd": "/srv/py", "includeTools": ["a"] }
  }
}
`,
	"antigravity .gemini/config/mcp_config.json": "{\n\t\"mcpServers\": {\n\t\t\"metamcp-old\": {\"command\": \"/opt/metamcp\", \"args\": [\"--config\", \"/x.json\"]},\n\t\t\"ag\": {\"command\": \"ag-server\"}\n\t}\n}",
}

// machine is a home folder with those files; only: the ids of the clients that
// have one, all where there are none.
func machine(t *testing.T, only ...string) (s *Setup, paths map[string]string) {
	t.Helper()
	home := t.TempDir()
	cwd := filepath.Join(home, "work")
	s = &Setup{
		System:     System{GOOS: "linux", Home: home, Cwd: cwd, Getenv: func(string) string { return "" }},
		Executable: write(t, filepath.Join(home, "bin", "metamcp"), "#!/bin/sh\n", 0o755),
		Backups:    filepath.Join(home, ".metamcp", "backups"),
		OwnFiles:   []string{filepath.Join(cwd, ".mcp.json"), filepath.Join(home, ".metamcp", "mcp.json")},
	}
	paths = map[string]string{}
	for key, text := range files {
		id, path, _ := strings.Cut(key, " ")
		if len(only) > 0 && !slices.Contains(only, id) {
			continue
		}
		paths[id] = write(t, filepath.Join(home, path), strings.ReplaceAll(text, "@CWD", cwd), 0o640)
	}
	return s, paths
}

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func planInit(t *testing.T, s *Setup, o InitOptions) []*Change {
	t.Helper()
	changes, err := s.PlanInit(o)
	if err != nil {
		t.Fatal(err)
	}
	noSecrets(t, changes)
	return changes
}

// initClients is init --yes.
func initClients(t *testing.T, s *Setup, o InitOptions) []*Change {
	t.Helper()
	changes := planInit(t, s, o)
	s.Apply("init", changes)
	noSecrets(t, changes)
	return changes
}

func undo(t *testing.T, s *Setup, command string, ids ...string) []*Change {
	t.Helper()
	changes, err := s.Undo(command, ids)
	if err != nil {
		t.Fatal(err)
	}
	noSecrets(t, changes)
	s.Apply(command, changes)
	noSecrets(t, changes)
	return changes
}

func noSecrets(t *testing.T, changes []*Change) {
	t.Helper()
	for _, c := range changes {
		text := c.Diff + c.Problem + strings.Join(c.Notes, "\n")
		for _, secret := range []string{tokenValue, plainSecret, argSecret, "horse"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %q:\n%s", c.Client, secret, text)
			}
		}
	}
}

// only is the one change that there has to be.
func only(t *testing.T, changes []*Change) *Change {
	t.Helper()
	if len(changes) != 1 {
		t.Fatalf("%d changes: %+v", len(changes), changes)
	}
	return changes[0]
}
