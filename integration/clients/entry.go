package clients

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/config"
)

// Entry is one server in a client's file. What it holds of variables and
// headers is not in its exported fields: these are keys.
type Entry struct {
	Name    string
	Where   string // of several lists in one file: the project; "": the whole
	Command string // "" for a remote server
	Args    []string
	Off     bool

	members map[string]any
}

func newEntry(name, where string, members map[string]any) Entry {
	e := Entry{Name: name, Where: where, members: members}
	switch command := members["command"].(type) {
	case string:
		e.Command, e.Args = command, argList(members["args"])
	case []any: // OpenCode's
		if all := stringList(command); len(all) > 0 {
			e.Command, e.Args = all[0], all[1:]
		}
	case map[string]any: // Zed's older form
		e.Command, _ = command["path"].(string)
		e.Args = argList(command["args"])
	}
	disabled, _ := members["disabled"].(bool)
	enabled, given := members["enabled"].(bool)
	e.Off = disabled || given && !enabled
	return e
}

// looks reports whether an entry of metamcp names no configuration, by a flag or a
// variable: metamcp looks for its files where the client starts it.
func (e *Entry) looks() bool {
	inner, _ := e.members["command"].(map[string]any) // Zed's older form
	for _, env := range []any{e.members["env"], e.members["environment"], inner["env"]} {
		if variables, _ := env.(map[string]any); variables[config.FilesVariable] != nil {
			return false
		}
	}
	return len(configFiles(e.Args)) == 0
}

// argList reads arguments. A text where a list belongs is one: without any argument the
// entry would look like another program, such as metamcp itself.
func argList(value any) []string {
	if text, ok := value.(string); ok {
		return []string{text}
	}
	return stringList(value)
}

func stringList(value any) []string {
	list, _ := value.([]any)
	out := make([]string, 0, len(list))
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// Read returns the servers of a client's file by name, with those that Claude
// Code keeps for its projects. The error is that of a file that is not there,
// cannot be read or is not what it should be; it holds nothing of the file.
func (p Place) Read() ([]Entry, error) {
	if _, err := os.Stat(p.Path); err != nil {
		return nil, err
	}
	c, err := readFile(p.Path)
	if err != nil {
		return nil, err
	}
	all, _, err := p.entries(c.data)
	if err != nil {
		return nil, err
	}
	if p.Client.byFolder && p.folder == "" {
		all = append(all, projectEntries(c.data, p.Client.Key)...)
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Name, b.Name)) })
	return all, nil
}

// entries returns the servers of a place, and where in its text they are.
func (p Place) entries(raw []byte) ([]Entry, []string, error) {
	if p.folder == "" {
		return p.Client.entries(raw)
	}
	d, err := parseJSON(raw)
	if err != nil {
		return nil, nil, err
	}
	path := []string{projectsKey, p.folder, p.Client.Key}
	all, err := d.entries(path, p.folder)
	return all, path, err
}

// entries returns the servers of a text in its order, and where in it they are.
func (c *Client) entries(raw []byte) ([]Entry, []string, error) {
	if c.format == formatTOML {
		tree, err := parseTOML(raw)
		if err != nil {
			return nil, nil, err
		}
		servers, ok := tree[c.Key].(map[string]any)
		if tree[c.Key] != nil && !ok {
			return nil, nil, fmt.Errorf("[%s] is not a table", c.Key)
		}
		var all []Entry
		for name, v := range servers {
			if members, ok := v.(map[string]any); ok {
				all = append(all, newEntry(name, "", members))
			}
		}
		slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
		return all, []string{c.Key}, nil
	}
	d, err := parseJSON(raw)
	if err != nil {
		return nil, nil, err
	}
	path := []string{c.Key}
	if c.format == formatOpenCode && d.isSecondOpenCode(c.Key) {
		path = append(path, "servers")
	}
	all, err := d.entries(path, "")
	return all, path, err
}

// isSecondOpenCode tells the form of OpenCode's second version, which has one
// more level, from a server that is called "servers".
func (d *document) isSecondOpenCode(key string) bool {
	v, depth, err := d.at([]string{key, "servers"})
	return err == nil && depth == 2 && find(v, "type") == nil && find(v, "command") == nil
}

// entries reads the object at path. What is no object is no server.
func (d *document) entries(path []string, where string) ([]Entry, error) {
	v, depth, err := d.at(path)
	if err != nil || depth < len(path) {
		return nil, err
	}
	var all []Entry
	list := members(v)
	last := make(map[string]int, len(list)) // of two of one name the last one counts
	for i := range list {
		last[nameOf(&list[i])] = i
	}
	for i := range list {
		var decoded map[string]any
		if name := nameOf(&list[i]); last[name] == i && decodeJSON(&list[i].Value, &decoded) == nil && decoded != nil {
			all = append(all, newEntry(name, where, decoded))
		}
	}
	return all, nil
}

// projectsKey is where Claude Code keeps what belongs to a folder.
const projectsKey = "projects"

func projectEntries(raw []byte, key string) []Entry {
	d, err := parseJSON(raw)
	if err != nil {
		return nil
	}
	projects := find(&d.root, projectsKey)
	if projects == nil {
		return nil
	}
	var all []Entry
	for _, m := range members(&projects.Value) {
		// A project of another form has no servers for us.
		own, _ := d.entries([]string{projectsKey, nameOf(&m), key}, nameOf(&m))
		all = append(all, own...)
	}
	return all
}

// Serves reports whether arguments make metamcp a server: no command, or the
// command serve. The demo server is no metamcp.
func Serves(args []string) bool {
	for i, a := range args {
		switch {
		case a == "serve":
			return true
		case strings.HasPrefix(a, "-"):
		case i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "="):
			// It is the flag's value, or a command behind a flag without one.
			if slices.Contains(otherCommands, a) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// ConfigFiles are the files that --config or -c name in metamcp's arguments, as they
// stand there.
func ConfigFiles(args []string) []string {
	var files []string
	for i, a := range args {
		if file, ok := strings.CutPrefix(a, "--config="); ok {
			files = append(files, file)
		} else if (a == "--config" || a == "-c") && i+1 < len(args) {
			files = append(files, args[i+1])
		}
	}
	return files
}

// otherCommands are commands of metamcp that are no host and may stand behind
// a flag.
var otherCommands = []string{
	"demo-server", "call", "discover", "index", "model", "bench", "status", "ps", "logs", "audit", "version", "settings", "doctor",
	"init", "import", "exec", "trace", "registry", "trust", "provision", "help", "completion",
	"add", "remove", "enable", "disable", "list", "test", "man", "pins", "approve", "secrets", "token", "auth", "host", "top",
}

// isMetamcp reports whether a command is metamcp, whichever build of it, or
// this very program.
func isMetamcp(command, executable string) bool {
	base := strings.ToLower(filepath.Base(strings.ReplaceAll(command, `\`, "/")))
	return strings.TrimSuffix(base, ".exe") == "metamcp" || SameFile(command, executable)
}

// SameFile reports whether two paths lead to one file.
func SameFile(a, b string) bool {
	if a == b {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}

// whole is a number that a parser of JSON or TOML made; false: it is none, or
// has a fraction that matters.
func whole(value any) (float64, bool) {
	switch n := value.(type) {
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
