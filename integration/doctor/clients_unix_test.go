//go:build unix

package doctor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/doctor"
)

// secret stands in every file of a client here and in no result.
const secret = "sk-this-is-a-secret"

// machine is a patient with one server behind metamcp and a metamcp in PATH
// that is not this program.
func machine(t *testing.T) (p *doctor.Patient, home, other string) {
	t.Helper()
	home = t.TempDir()
	other = write(t, filepath.Join(home, "bin", "metamcp"), "#!/bin/sh\n", 0o755)
	p = patient(t, home, object{
		"files": object{"command": "npx", "args": []string{"-y", "server-files", "/data"}},
		"web":   object{"url": "https://example.com/mcp"},
	}, nil)
	p.GOOS = "linux"
	return p, home, other
}

// The paths are those of the clients' documentation.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		goos string
		env  map[string]string
		file string // below home
		want string // the client's name
	}{
		{"linux", nil, ".config/Claude/claude_desktop_config.json", "Claude Desktop"},
		{"linux", map[string]string{"XDG_CONFIG_HOME": "xdg"}, "xdg/Claude/claude_desktop_config.json", "Claude Desktop"},
		{"darwin", nil, "Library/Application Support/Claude/claude_desktop_config.json", "Claude Desktop"},
		{"linux", nil, ".claude.json", "Claude Code"},
		{"darwin", map[string]string{"CLAUDE_CONFIG_DIR": "cc"}, "cc/.claude.json", "Claude Code"},
		{"linux", nil, "work/.mcp.json", "Claude Code (project)"},
		{"darwin", nil, ".cursor/mcp.json", "Cursor"},
		{"linux", nil, "work/.cursor/mcp.json", "Cursor (project)"},
		{"linux", nil, ".config/Code/User/mcp.json", "VS Code"},
		{"darwin", nil, "Library/Application Support/Code/User/mcp.json", "VS Code"},
		{"darwin", nil, "work/.vscode/mcp.json", "VS Code (project)"},
		{"linux", nil, ".codeium/windsurf/mcp_config.json", "Windsurf"},
		{"linux", nil, ".config/zed/settings.json", "Zed"},
		{"darwin", nil, ".config/zed/settings.json", "Zed"},
		{"linux", nil, ".codex/config.toml", "Codex"},
		{"darwin", map[string]string{"CODEX_HOME": "cx"}, "cx/config.toml", "Codex"},
		{"linux", nil, ".config/opencode/opencode.json", "OpenCode"},
		{"linux", nil, ".config/opencode/opencode.jsonc", "OpenCode"},
		{"linux", map[string]string{"OPENCODE_CONFIG": "oc/own.json"}, "oc/own.json", "OpenCode"},
		{"linux", nil, "work/opencode.json", "OpenCode (project)"},
		{"linux", nil, ".gemini/settings.json", "Gemini CLI"},
		{"linux", nil, "work/.gemini/settings.json", "Gemini CLI (project)"},
		{"linux", nil, ".gemini/config/mcp_config.json", "Antigravity"},
		{"linux", nil, "work/.agents/mcp_config.json", "Antigravity (project)"},
		{"linux", nil, "work/.codex/config.toml", "Codex (project)"},
		{"linux", nil, "work/.zed/settings.json", "Zed (project)"},
		// Folders of Windows are one name here.
		{"windows", map[string]string{"APPDATA": "apps"}, `apps\Claude\claude_desktop_config.json`, "Claude Desktop"},
		{"windows", nil, `@\AppData\Roaming\Code\User\mcp.json`, "VS Code"},
		{"windows", nil, `@\.codex\config.toml`, "Codex"},
	} {
		t.Run(c.goos+" "+c.want, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			p := patient(t, filepath.Join(t.TempDir(), "elsewhere"), nil, nil)
			p.GOOS, p.Home, p.Cwd = c.goos, home, filepath.Join(home, "work")
			p.Getenv = func(name string) string {
				if v := c.env[name]; v != "" {
					return filepath.Join(home, v)
				}
				return ""
			}
			path := filepath.Join(home, c.file)
			if strings.HasPrefix(c.file, "@") {
				path = home + c.file[1:]
			}
			text := "{}"
			if strings.HasSuffix(path, ".toml") {
				text = ""
			}
			write(t, path, text, 0o600)
			results := examine(t, p, doctor.GroupClients)
			expect(t, results, want{"client.files", "", doctor.OK, "configured here: " + c.want, ""})
			expect(t, results, want{"client.metamcp", c.want, doctor.Skipped, path + " does not list metamcp (0 other servers)", p.Executable})
			if len(results) != 2 {
				t.Errorf("%+v", results)
			}
		})
	}
}

// Where the client's file is metamcp's own, its servers have to move to another.
func TestDoubledInOneFile(t *testing.T) {
	p, home, _ := machine(t)
	shared := write(t, filepath.Join(home, ".mcp.json"), encode(t, object{"mcpServers": object{
		"metamcp": object{"command": p.Executable}, "files": object{"command": "npx", "args": []string{"-y", "server-files", "/data"}},
	}}), 0o600)
	p.Config.Files = []string{shared}
	expect(t, examine(t, p, doctor.GroupClients), want{"client.doubled", "Claude Code (project)", doctor.Warn, "files",
		"`metamcp import claude-code --remove --project --config ~/.metamcp/mcp.json` moves them"})
}

func TestNoClients(t *testing.T) {
	p, _, _ := machine(t)
	results := examine(t, p, doctor.GroupClients)
	if len(results) != 1 {
		t.Errorf("%+v", results)
	}
	if r := expect(t, results, want{"client.files", "", doctor.Skipped, "no configuration file", ""}); len(r.Details) < 10 {
		t.Errorf("it does not say where it looked: %q", r.Details)
	}
}

func TestClients(t *testing.T) {
	env := object{"API_KEY": secret}
	ours := func(command string, args ...string) object {
		return object{"command": command, "args": append([]string{}, args...), "env": env}
	}
	files := object{"command": "npx", "args": []string{"-y", "server-files", "/data"}, "env": env}
	p, home, other := machine(t)
	file := p.Config.Files[0]
	write(t, filepath.Join(home, "broken.json"), "{", 0o600)
	list := func(entries object) string { return encode(t, object{"mcpServers": entries}) }
	for _, c := range []struct {
		name, file, text string
		wants            []want
	}{
		{"this program", ".claude.json", list(object{"metamcp": ours(p.Executable), "x": ours("x")}), []want{
			{"client.metamcp", "Claude Code", doctor.OK, `the entry "metamcp" starts this program`, ""},
		}},
		{"this program by another name", ".claude.json", list(object{"tools": ours(p.Executable, "serve")}), []want{
			{"client.metamcp", "Claude Code", doctor.OK, "starts this program", ""},
			{"client.doubled", "Claude Code", doctor.OK, "", ""},
		}},
		{"a command that is gone", ".claude.json", list(object{"metamcp": ours("/nowhere/metamcp")}), []want{
			{"client.command", "Claude Code", doctor.Fail, "/nowhere/metamcp of the entry \"metamcp\" is not there", p.Executable},
		}},
		{"a configuration that is gone", ".claude.json", list(object{"metamcp": ours(p.Executable, "--config", filepath.Join(home, "gone.json"))}), []want{
			{"client.config", "Claude Code", doctor.Fail, "gone.json", "another in the entry's args"},
		}},
		{"a configuration that is broken", ".claude.json", list(object{"metamcp": ours(p.Executable, "serve", "--config=~/broken.json")}), []want{
			{"client.config", "Claude Code", doctor.Fail, "broken.json", "Mend"},
		}},
		{"a configuration", ".claude.json", list(object{"metamcp": ours(p.Executable, "-c", file)}), []want{
			{"client.metamcp", "Claude Code", doctor.OK, "starts this program", ""},
		}},
		{"another program", ".claude.json", list(object{"metamcp": ours(other)}), []want{
			{"client.command", "Claude Code", doctor.Warn, "starts " + other, other + " doctor"},
		}},
		{"a name without a folder", ".cursor/mcp.json", list(object{"metamcp": ours("metamcp")}), []want{
			{"client.command", "Cursor", doctor.Warn, "without its folder", other},
		}},
		{"doubled by name", ".claude.json", list(object{"metamcp": ours(p.Executable), "files": ours("npx", "-y", "server-files@latest")}), []want{
			{"client.doubled", "Claude Code", doctor.Warn, "files", "`metamcp import claude-code --remove --config " + file + "`"},
		}},
		{"doubled by command", ".cursor/mcp.json", list(object{"metamcp": ours(p.Executable), "fs": files}), []want{
			{"client.doubled", "Cursor", doctor.Warn, "fs (behind metamcp: files)", "`metamcp import cursor --remove --config "},
		}},
		{"doubled remote", ".cursor/mcp.json", list(object{"metamcp": ours(p.Executable), "web": object{"url": "https://example.com/mcp?key=" + secret}}), []want{
			{"client.doubled", "Cursor", doctor.Warn, "web", ""},
		}},
		{"of the same name but another server", ".cursor/mcp.json", list(object{"metamcp": ours(p.Executable), "files": ours("python3", "files.py")}), []want{
			{"client.doubled", "Cursor", doctor.OK, "", ""},
		}},
		{"turned off", ".cursor/mcp.json", encode(t, object{"mcpServers": object{"metamcp": ours(p.Executable), "files": object{"command": "npx", "disabled": true}}}), []want{
			{"client.doubled", "Cursor", doctor.OK, "", ""},
		}},
		{"in a project of Claude Code", ".claude.json", encode(t, object{"projects": object{
			"/a": object{"mcpServers": object{"metamcp": ours(p.Executable)}, "history": []string{secret}},
			"/b": object{"mcpServers": object{"files": files}},
		}}), []want{
			{"client.metamcp", "Claude Code", doctor.OK, "project /a", ""},
			{"client.doubled", "Claude Code", doctor.OK, "", ""}, // another project
		}},
		{"doubled in a project of Claude Code", ".claude.json", encode(t, object{"projects": object{
			"/a": object{"mcpServers": object{"metamcp": ours(p.Executable), "files": files}},
		}}), []want{
			{"client.doubled", "Claude Code", doctor.Warn, "files", "`metamcp import claude-code --remove --project --config " + file + "` in /a,"},
		}},
		{"doubled in a folder", ".cursor/mcp.json", list(object{"metamcp": ours(p.Executable), "files": files}), []want{
			{"client.doubled", "Cursor (project)", doctor.Warn, "files", "`metamcp import cursor --remove --project --config "},
		}},
		{"arguments that are no list", ".claude.json", list(object{"text": object{"command": p.Executable, "args": "demo-server"}}), []want{
			{"client.metamcp", "Claude Code", doctor.Skipped, "(1 other server)", ""},
		}},
		{"VS Code, with comments", ".config/Code/User/mcp.json", "\ufeff{ // mine\n\"servers\": {\"metamcp\": " + encode(t, ours(p.Executable)) + ", \"files\": " + encode(t, files) + ",},\n}\n// end", []want{
			{"client.metamcp", "VS Code", doctor.OK, "", ""},
			{"client.doubled", "VS Code", doctor.Warn, "files", ""},
		}},
		{"Zed, both forms", ".config/zed/settings.json", encode(t, object{"context_servers": object{
			"metamcp": object{"command": object{"path": p.Executable, "args": []string{}, "env": env}}, "files": files,
		}}), []want{
			{"client.metamcp", "Zed", doctor.OK, "", ""},
			{"client.doubled", "Zed", doctor.Warn, "files", ""},
		}},
		{"Codex", ".codex/config.toml", "model = 'x'\n[mcp_servers.metamcp]\ncommand = '" + p.Executable + "'\n[mcp_servers.metamcp.env]\nKEY = '" + secret + "'\n[mcp_servers.files]\ncommand = 'npx'\nargs = ['-y', 'server-files']\n", []want{
			{"client.metamcp", "Codex", doctor.OK, "", ""},
			{"client.doubled", "Codex", doctor.Warn, "files", ""},
		}},
		{"Codex, broken", ".codex/config.toml", "[mcp_servers.x]\ncommand = \nkey = '" + secret + "'\n", []want{
			{"client.file", "Codex", doctor.Warn, "line 2", "by hand"},
		}},
		{"broken", ".claude.json", `{"mcpServers": {"x": {"env": {"K": "` + secret + `"}}`, []want{
			{"client.file", "Claude Code", doctor.Warn, ".claude.json cannot be read", "by hand"},
		}},
		{"of another form", ".claude.json", `{"mcpServers": ["` + secret + `"]}`, []want{
			{"client.file", "Claude Code", doctor.Warn, "is not an object: found an array", ""},
		}},
		{"empty", ".claude.json", "", []want{
			{"client.metamcp", "Claude Code", doctor.Skipped, "does not list metamcp", p.Executable},
		}},
		{"a folder", ".claude.json/x", "", []want{
			{"client.file", "Claude Code", doctor.Warn, "no regular file", ""},
		}},
		{"the demo server is no metamcp", ".claude.json", list(object{"demo": ours(other, "demo-server")}), []want{
			{"client.metamcp", "Claude Code", doctor.Skipped, "(1 other server)", ""},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, filepath.Join(home, c.file), c.text, 0o600)
			defer func() {
				if err := os.RemoveAll(filepath.Join(home, strings.Split(c.file, "/x")[0])); err != nil {
					t.Fatal(err)
				}
			}()
			results := examine(t, p, doctor.GroupClients)
			for _, w := range c.wants {
				expect(t, results, w)
			}
			text, err := json.Marshal(results)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), secret) {
				t.Errorf("it shows a secret: %s", text)
			}
		})
	}
}

// The .mcp.json of the working folder is metamcp's own configuration too.
func TestOwnFileIsNoClient(t *testing.T) {
	dir := t.TempDir()
	p := patientOf(t, dir, write(t, filepath.Join(dir, ".mcp.json"), `{"mcpServers": {"a": {"command": "a"}}}`, 0o600))
	expect(t, examine(t, p, doctor.GroupClients), want{"client.metamcp", "Claude Code (project)", doctor.Skipped, "metamcp's own configuration", ""})
}
