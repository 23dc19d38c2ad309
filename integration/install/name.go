package install

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/safename"
	"github.com/metamcp/metamcp/integration/trust"
)

// common are last words of packages that do not tell them apart.
var common = map[string]bool{"mcp": true, "server": true, "mcp-server": true, "server-mcp": true, "latest": true, "bundle": true}

// suggestName returns a short name for a package: its last word, with the word
// before it where that alone says nothing.
func suggestName(kind registry.Kind, id string) string {
	switch kind {
	case registry.OCI:
		id, _, _ = strings.Cut(id, "@")
		if i := strings.LastIndexByte(id, ':'); i > strings.LastIndexByte(id, '/') {
			id = id[:i]
		}
	case registry.MCPB:
		if u, err := url.Parse(id); err == nil {
			id = strings.TrimSuffix(strings.TrimSuffix(u.Path, path.Ext(u.Path)), "/")
		}
	case trust.Remote:
		if u, err := url.Parse(placeholder().ReplaceAllString(id, "x")); err == nil {
			labels := strings.Split(u.Hostname(), ".")
			if len(labels) > 1 {
				labels = labels[:len(labels)-1] // the top-level domain
			}
			if len(labels) > 1 && (common[labels[0]] || labels[0] == "www" || labels[0] == "api") {
				labels = labels[1:]
			}
			id = labels[len(labels)-1]
		}
	default: // the name is one
	}
	words := strings.FieldsFunc(strings.ToLower(id), func(r rune) bool { return r == '/' || r == '@' })
	words = slices.DeleteFunc(words, func(w string) bool { return strings.Trim(w, "._-") == "" })
	name := "server"
	if n := len(words); n > 0 {
		name = words[n-1]
		if n > 1 && common[name] {
			name = words[n-2] + "-" + name
		}
	}
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, name)
	const most = 60 // with room for a number
	name = strings.Trim(name[:min(len(name), most)], ".-_")
	if provisioned.CheckName(name) != nil {
		// A device of Windows, or nothing that is left.
		name = strings.ReplaceAll(safename.SafeName("server-"+name), "@", "-")
	}
	return name
}
