package skills

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// maxMatter bounds the front matter, and so what is read of a file.
	maxMatter = 32 << 10
	// maxName and maxDescription are those of the specification of skills.
	maxName        = 64
	maxDescription = 1024
	// maxRequires bounds how many servers a skill may need.
	maxRequires = 32
	// maxServer is the longest name of a server in a configuration.
	maxServer = 128
)

// requiresKey is the member that names servers.
const requiresKey = "requires-mcp"

// matter is what a front matter says.
type matter struct {
	name, description string
	requires          []string
}

var fence = []byte("---")

// split returns the front matter of a text: what stands between two lines of
// three dashes at its beginning.
func split(text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if !bytes.Equal(bytes.TrimRight(first, " \t\r"), fence) {
		return nil, errors.New("it does not begin with front matter, a line of three dashes")
	}
	for at := 0; ; {
		line, _, more := bytes.Cut(rest[at:], []byte("\n"))
		if bytes.Equal(bytes.TrimRight(line, " \t\r"), fence) {
			return rest[:at], nil
		}
		if !more {
			return nil, fmt.Errorf("its front matter has no end, a second line of three dashes, within %d KiB", maxMatter>>10)
		}
		at += len(line) + 1
	}
}

// parse reads the front matter of a SKILL.md. folder is the name of its folder,
// which is that of the skill where it gives none.
func parse(text []byte, folder string) (*matter, error) {
	raw, err := split(text)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("its front matter is not UTF-8")
	}
	// A tree resolves no aliases, so that none can make it grow.
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("its front matter is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("its front matter is no list of names and values")
	}
	root := doc.Content[0]
	m := &matter{name: folder}
	if v := value(root, "name"); v != nil {
		if m.name, err = scalar(v, "name"); err != nil {
			return nil, err
		}
	}
	if m.name == "" || len(m.name) > maxName {
		return nil, fmt.Errorf("its name is empty or longer than %d bytes", maxName)
	}
	v := value(root, "description")
	if v == nil {
		return nil, errors.New("it has no description, which says when to use it")
	}
	if m.description, err = scalar(v, "description"); err != nil {
		return nil, err
	}
	m.description = strings.Join(strings.Fields(m.description), " ")
	switch {
	case m.description == "":
		return nil, errors.New("its description is empty; it says when to use the skill")
	case len(m.description) > maxDescription:
		m.description = strings.ToValidUTF8(m.description[:maxDescription], "") + "…"
	}
	requires := value(root, requiresKey)
	if requires == nil {
		if meta := value(root, "metadata"); meta != nil && meta.Kind == yaml.MappingNode {
			requires = value(meta, requiresKey)
		}
	}
	if requires != nil {
		m.requires, err = servers(requires)
	}
	return m, err
}

// value returns the member of a mapping; nil: there is none. Of several the
// last one counts.
func value(v *yaml.Node, name string) *yaml.Node {
	for i := len(v.Content) - 2; i >= 0; i -= 2 {
		if v.Content[i].Kind == yaml.ScalarNode && v.Content[i].Value == name {
			return v.Content[i+1]
		}
	}
	return nil
}

func scalar(v *yaml.Node, name string) (string, error) {
	switch {
	case v.Kind == yaml.AliasNode:
		return "", fmt.Errorf("line %d: %s is an alias; write the value itself", v.Line+1, name)
	case v.Kind != yaml.ScalarNode:
		return "", fmt.Errorf("line %d: %s is no text", v.Line+1, name) // one line of dashes before
	case v.Tag == "!!null":
		return "", nil
	}
	return strings.TrimSpace(v.Value), nil
}

// servers reads a name, names with commas between, or a list of names.
func servers(v *yaml.Node) ([]string, error) {
	var words []string
	switch v.Kind {
	case yaml.SequenceNode:
		for _, e := range v.Content {
			name, err := scalar(e, requiresKey)
			if err != nil {
				return nil, err
			}
			words = append(words, name)
		}
	default:
		text, err := scalar(v, requiresKey)
		if err != nil {
			return nil, fmt.Errorf("%w: write the names of servers", err)
		}
		words = strings.Split(text, ",")
	}
	var list []string
	for _, w := range words {
		w = strings.TrimSpace(w)
		if w == "" || slices.Contains(list, w) {
			continue
		}
		if len(w) > maxServer {
			return nil, fmt.Errorf("%s has a name longer than %d bytes", requiresKey, maxServer)
		}
		if list = append(list, w); len(list) > maxRequires {
			return nil, fmt.Errorf("%s names more than %d servers", requiresKey, maxRequires)
		}
	}
	return list, nil
}
