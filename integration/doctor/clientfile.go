package doctor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"
)

// maxClientFile is the largest file of a client that is read; Claude Code
// keeps its history in the same file.
const maxClientFile = 64 << 20

// listed is one server in a client's file. Its environment is not kept, nor
// shown: it holds keys.
type listed struct {
	name    string
	where   string // of several lists in one file: the project; "": the whole
	command string // "" for a remote server
	args    []string
	off     bool
}

// entryText is an entry as it is written by any of the clients.
type entryText struct {
	Command  json.RawMessage `json:"command"` // Zed's older form is an object
	Args     []string        `json:"args"`
	Disabled bool            `json:"disabled"`
	Enabled  *bool           `json:"enabled"`
}

// readClient reads the servers of a client's file.
func readClient(at place) ([]listed, error) {
	text, err := readBounded(at.path, maxClientFile)
	if err != nil {
		return nil, err
	}
	if at.format == codexTables {
		return readCodex(text)
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil // as a client leaves it that has none yet
	}
	// A comment at the very end needs a line's end for the parser.
	plain, err := hujson.Standardize(append(text, '\n'))
	if err != nil {
		return nil, withoutValues(err)
	}
	type lists struct {
		MCPServers     map[string]json.RawMessage `json:"mcpServers"`
		Servers        map[string]json.RawMessage `json:"servers"`
		ContextServers map[string]json.RawMessage `json:"context_servers"`
	}
	var file struct {
		lists
		Projects map[string]json.RawMessage `json:"projects"`
	}
	if err := json.Unmarshal(plain, &file); err != nil {
		return nil, shapeError(err)
	}
	var all []listed
	switch at.format {
	case vscodeServers:
		all = entries("", file.Servers)
	case contextServers:
		all = entries("", file.ContextServers)
	default:
		all = entries("", file.MCPServers)
		for project, raw := range file.Projects {
			var inner lists
			if json.Unmarshal(raw, &inner) == nil { // a project of another form has no servers for us
				all = append(all, entries(project, inner.MCPServers)...)
			}
		}
	}
	sortListed(all)
	return all, nil
}

// shapeError says what was expected, without what was found: it may be secret.
func shapeError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%q is not of the expected form: found %s", wrong.Field, wrong.Value)
	}
	return err
}

func entries(where string, members map[string]json.RawMessage) []listed {
	var all []listed
	for name, raw := range members {
		var e entryText
		if json.Unmarshal(raw, &e) != nil {
			continue // no server that the client could start either
		}
		l := listed{name: name, where: where, args: e.Args, off: e.Disabled || e.Enabled != nil && !*e.Enabled}
		var inner struct {
			Path string   `json:"path"`
			Args []string `json:"args"`
		}
		if json.Unmarshal(e.Command, &l.command) != nil && json.Unmarshal(e.Command, &inner) == nil {
			l.command, l.args = inner.Path, inner.Args
		}
		all = append(all, l)
	}
	return all
}

func readCodex(text []byte) ([]listed, error) {
	var file struct {
		Servers map[string]struct {
			Command string   `toml:"command"`
			Args    []string `toml:"args"`
			Enabled *bool    `toml:"enabled"`
		} `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(text, &file); err != nil {
		var syntax toml.ParseError
		if errors.As(err, &syntax) {
			// Its whole text would show the line, which may hold a key.
			return nil, fmt.Errorf("line %d: %s", syntax.Position.Line, syntax.Message)
		}
		return nil, errors.New("[mcp_servers] is not of the expected form")
	}
	var all []listed
	for name, e := range file.Servers {
		all = append(all, listed{name: name, command: e.Command, args: e.Args, off: e.Enabled != nil && !*e.Enabled})
	}
	sortListed(all)
	return all, nil
}

func sortListed(all []listed) {
	slices.SortFunc(all, func(a, b listed) int { return cmp.Or(cmp.Compare(a.where, b.where), cmp.Compare(a.name, b.name)) })
}

// withoutValues is an error of a parser that says where, and not what is there:
// that could be a secret.
func withoutValues(err error) error {
	where, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "hujson: "), ":")
	if !strings.HasPrefix(where, "line ") {
		return errors.New("it is not JSON")
	}
	return fmt.Errorf("it is not JSON: %s", where)
}
