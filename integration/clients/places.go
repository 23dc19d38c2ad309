package clients

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// format is how a client's file names its servers.
type format uint8

const (
	formatJSON     format = iota // {KEY: {NAME: {…}}}, with comments
	formatTOML                   // [KEY.NAME]
	formatOpenCode               // {"mcp": {NAME: {…}}}, or {"mcp": {"servers": {NAME: {…}}}}
)

// references is how a client writes a variable of the environment.
type references uint8

const (
	refNone     references = iota // nothing is filled in
	refShell                      // ${VAR} and ${VAR:-default}, as metamcp does
	refEditor                     // ${env:VAR}, ${input:ID}, ${workspaceFolder}, …
	refGemini                     // $VAR and ${VAR}
	refOpenCode                   // {env:VAR} and {file:PATH}
)

// Client is one program that starts MCP servers.
type Client struct {
	ID   string // as people type it
	Name string // as its maker writes it
	// Menu says that it is started from a menu, so that its PATH is not that of
	// a terminal.
	Menu bool
	// Key is the member of its file that holds the servers.
	Key string

	format format
	refs   references
	// byFolder says that its user's file has servers of single folders too.
	byFolder bool
	// extra are members that an entry of ours has beside command and args.
	extra object
	// user and project are the files it reads, the one that is made last; marks
	// show that it is installed. All of them are templates, see [System.path].
	user, project, marks []string
}

// table is every client that is known. The files are those of the clients' own
// documentation; docs/CLIENTS.md shows them to people.
var table = []*Client{
	{
		ID: "claude-desktop", Name: "Claude Desktop", Menu: true, Key: "mcpServers", refs: refNone,
		user: []string{"{apps}/Claude/claude_desktop_config.json"}, marks: []string{"{apps}/Claude"},
	},
	{
		ID: "claude-code", Name: "Claude Code", Key: "mcpServers", refs: refShell, byFolder: true, extra: object{{"type", "stdio"}},
		user: []string{"{claude}/.claude.json"}, project: []string{"{cwd}/.mcp.json"}, marks: []string{"{claudeFolder}"},
	},
	{
		ID: "cursor", Name: "Cursor", Menu: true, Key: "mcpServers", refs: refEditor,
		user: []string{"{home}/.cursor/mcp.json"}, project: []string{"{cwd}/.cursor/mcp.json"}, marks: []string{"{home}/.cursor"},
	},
	{
		ID: "vscode", Name: "VS Code", Menu: true, Key: "servers", refs: refEditor, extra: object{{"type", "stdio"}},
		user: []string{"{apps}/Code/User/mcp.json"}, project: []string{"{cwd}/.vscode/mcp.json"}, marks: []string{"{apps}/Code"},
	},
	{
		ID: "windsurf", Name: "Windsurf", Menu: true, Key: "mcpServers", refs: refEditor,
		user: []string{"{home}/.codeium/windsurf/mcp_config.json"}, marks: []string{"{home}/.codeium/windsurf"},
	},
	{
		ID: "zed", Name: "Zed", Menu: true, Key: "context_servers", refs: refNone, extra: object{{"source", "custom"}},
		user: []string{"{zed}/settings.json"}, project: []string{"{cwd}/.zed/settings.json"}, marks: []string{"{zed}"},
	},
	{
		ID: "codex", Name: "Codex", Key: "mcp_servers", format: formatTOML, refs: refNone,
		user: []string{"{codex}/config.toml"}, project: []string{"{cwd}/.codex/config.toml"}, marks: []string{"{codex}"},
	},
	{
		ID: "opencode", Name: "OpenCode", Key: "mcp", format: formatOpenCode, refs: refOpenCode,
		user:    []string{"{opencode}", "{xdg}/opencode/opencode.jsonc", "{xdg}/opencode/opencode.json"},
		project: []string{"{cwd}/opencode.jsonc", "{cwd}/opencode.json"}, marks: []string{"{xdg}/opencode"},
	},
	{
		// Antigravity keeps its things below ~/.gemini too, so the folder alone
		// says nothing.
		ID: "gemini", Name: "Gemini CLI", Key: "mcpServers", refs: refGemini,
		user: []string{"{home}/.gemini/settings.json"}, project: []string{"{cwd}/.gemini/settings.json"},
		marks: []string{"{home}/.gemini/oauth_creds.json", "{home}/.gemini/installation_id"},
	},
	{
		ID: "antigravity", Name: "Antigravity", Menu: true, Key: "mcpServers", refs: refShell,
		user: []string{"{home}/.gemini/config/mcp_config.json"}, project: []string{"{cwd}/.agents/mcp_config.json"},
		marks: []string{"{home}/.gemini/config", "{home}/.gemini/antigravity"},
	},
}

// All returns every client that is known, in the order in which they are shown.
func All() []*Client { return slices.Clone(table) }

// IDs are the names of all clients as people type them.
func IDs() []string {
	ids := make([]string, len(table))
	for i, c := range table {
		ids[i] = c.ID
	}
	return ids
}

// Find returns the client that a person means by a word; nil: none.
func Find(word string) *Client {
	plain := func(s string) string {
		return strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(s))
	}
	other := map[string]string{"claude": "claude-code", "code": "vscode", "geminicli": "gemini", "codexcli": "codex"}
	word = plain(word)
	for _, c := range table {
		if plain(c.ID) == word || plain(c.Name) == word || c.ID == other[word] {
			return c
		}
	}
	return nil
}

// System is the machine whose clients are meant.
type System struct {
	GOOS      string
	Home, Cwd string // absolute
	Getenv    func(string) string
}

// path fills in a template; "": a variable that it needs is not set. Folders
// that the environment does not name are those of the clients' documentation.
func (s *System) path(template string) string {
	separator := "/"
	if s.GOOS == "windows" {
		separator = `\`
	}
	join := func(parts ...string) string { return strings.Join(parts, separator) }
	or := func(variable, fallback string) string {
		if v := s.Getenv(variable); v != "" {
			return v
		}
		return fallback
	}
	xdg := or("XDG_CONFIG_HOME", join(s.Home, ".config"))
	// apps is where programs with windows keep their settings.
	apps, zed := xdg, join(xdg, "zed")
	switch s.GOOS {
	case "windows":
		apps = or("APPDATA", join(s.Home, "AppData", "Roaming"))
		zed = join(apps, "Zed")
	case "darwin":
		apps = join(s.Home, "Library", "Application Support")
		zed = join(s.Home, ".config", "zed")
	}
	values := map[string]string{
		"home": s.Home, "cwd": s.Cwd, "apps": apps, "xdg": xdg, "zed": zed,
		"claude": or("CLAUDE_CONFIG_DIR", s.Home), "claudeFolder": or("CLAUDE_CONFIG_DIR", join(s.Home, ".claude")),
		"codex": or("CODEX_HOME", join(s.Home, ".codex")), "opencode": s.Getenv("OPENCODE_CONFIG"),
	}
	key, rest, _ := strings.Cut(strings.TrimPrefix(template, "{"), "}")
	if values[key] == "" {
		return ""
	}
	return values[key] + strings.ReplaceAll(rest, "/", separator)
}

// Place is a file of a client.
type Place struct {
	Client *Client
	Path   string
	// Project says that it belongs to the working folder and not to the user.
	Project bool

	folder string // of a file with servers by folder: which one; "": the whole
}

// Name is the client's name, with what it is a file of.
func (p Place) Name() string {
	if p.Project {
		return p.Client.Name + " (project)"
	}
	return p.Client.Name
}

// Places are the files of a client on a system: the user's, and the working
// folder's where the client has such a thing. They need not be there.
func (s *System) Places(c *Client) []Place {
	places := []Place{{Client: c, Path: s.choose(c.user)}}
	if len(c.project) > 0 && s.Cwd != "" {
		places = append(places, Place{Client: c, Path: s.choose(c.project), Project: true})
	}
	return places
}

// OfProject reports whether a file belongs to the working folder, as ./.mcp.json does,
// so that its relative paths are those of that folder.
func (s *System) OfProject(file string) bool {
	found := false
	for _, c := range table {
		for _, p := range s.Places(c) {
			if p.Path == file && !p.Project {
				return false // the working folder is the home folder
			}
			found = found || p.Path == file
		}
	}
	return found
}

// choose is the first file that is there, else the last one.
func (s *System) choose(templates []string) string {
	chosen := ""
	for _, t := range templates {
		path := s.path(t)
		if path == "" {
			continue
		}
		if chosen = path; exists(path) {
			break
		}
	}
	return chosen
}

// Installed reports whether there is a sign of a client on the system: its
// file, or its folder.
func (s *System) Installed(c *Client) bool {
	return exists(s.choose(c.user)) || slices.ContainsFunc(c.marks, func(t string) bool { return exists(s.path(t)) })
}

// exists reports whether something is there, be it a link to nothing.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return path != "" && !errors.Is(err, fs.ErrNotExist)
}
