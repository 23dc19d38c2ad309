package clients

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

const (
	// maxTOML is the largest TOML file that is changed: statements are found by
	// trying to parse what may be one.
	maxTOML = 1 << 20
	// maxStatement bounds the lines of one statement for the same reason.
	maxStatement = 1000
	// maxTables bounds the tables within tables: each costs the parser a copy
	// of all names around it.
	maxTables = 200
)

// parseTOML never shows what stands in the text.
func parseTOML(raw []byte) (map[string]any, error) {
	if len(raw) > maxTOML {
		return nil, fmt.Errorf("it is larger than %d KiB", maxTOML>>10)
	}
	raw = bytes.TrimPrefix(raw, bom)
	if bytes.HasPrefix(raw, []byte{0xff, 0xfe}) || bytes.HasPrefix(raw, []byte{0xfe, 0xff}) {
		return nil, errors.New("it is UTF-16; save it as UTF-8")
	}
	if tooManyTables(raw) {
		return nil, fmt.Errorf("it is nested deeper than %d levels", maxTables)
	}
	tree := map[string]any{}
	_, err := toml.Decode(string(raw), &tree)
	var syntax toml.ParseError
	switch {
	case errors.As(err, &syntax):
		// Its whole text would show the line, which may hold a key.
		return nil, fmt.Errorf("it is not TOML: line %d", syntax.Position.Line)
	case err != nil:
		return nil, errors.New("it is not TOML")
	}
	return tree, nil
}

// tooManyTables looks for tables within tables, without knowing what is text:
// a text with so many dots or brackets is taken for them too.
func tooManyTables(text []byte) bool {
	dots, open := 0, 0
	for _, c := range text {
		switch c {
		case '.':
			dots++
		case '=', '\n':
			dots = 0
		case '{':
			open++
		case '}':
			open = max(open-1, 0)
		}
		if dots > maxTables || open > maxTables {
			return true
		}
	}
	return false
}

// statement is a table's header, or a key with its value.
type statement struct {
	from, to int      // with the end of its line
	header   bool     // [a.b]
	path     []string // from the root; nil: a comment or an empty line
}

// statements cuts a valid text into its statements. A statement ends where
// what began in its first line parses by itself.
func statements(text []byte) ([]statement, error) {
	var all []statement
	var table []string
	for from := 0; from < len(text); {
		to, lines := from, 0
		var tree map[string]any
		var meta toml.MetaData
		for {
			if n := bytes.IndexByte(text[to:], '\n'); n >= 0 {
				to += n + 1
			} else {
				to = len(text)
			}
			var err error
			tree = nil
			if meta, err = toml.Decode(string(text[from:to]), &tree); err == nil {
				break
			}
			if lines++; to == len(text) || lines > maxStatement {
				return nil, errors.New("it cannot be taken apart safely; change it by hand")
			}
		}
		s := statement{from: from, to: to}
		if keys := meta.Keys(); len(keys) > 0 {
			if s.header = bytes.HasPrefix(bytes.TrimLeft(text[from:to], " \t"), []byte("[")); s.header {
				table = keys[0]
				s.path = table
			} else {
				s.path = slices.Concat(table, keys[0])
			}
		}
		all = append(all, s)
		from = to
	}
	return all, nil
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// setTOML is setJSON for a table [key.name].
func setTOML(raw []byte, key, name string, want object) ([]byte, error) {
	tree, err := parseTOML(raw)
	if err != nil {
		return nil, err
	}
	text := bytes.TrimPrefix(raw, bom)
	newline := "\n"
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		newline = "\r\n"
	}
	servers, ok := tree[key].(map[string]any)
	if tree[key] != nil && !ok {
		return nil, fmt.Errorf("[%s] is not a table", key)
	}
	var out []byte
	if servers[name] == nil {
		// Our parser would take a table beside one that is written in one line;
		// others rightly do not.
		all, err := statements(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(s statement) bool { return !s.header && slices.Equal(s.path, []string{key}) }) {
			return nil, fmt.Errorf("%s is written in one line; change it by hand", key)
		}
		out = appendTable(text, key, name, newline, want)
	} else if out, err = updateTable(text, []string{key, name}, newline, want); err != nil {
		return nil, err
	}
	out = append(raw[:len(raw)-len(text):len(raw)-len(text)], out...)

	if servers == nil {
		servers = map[string]any{}
		tree[key] = servers
	}
	entry, _ := servers[name].(map[string]any)
	if entry == nil {
		entry = map[string]any{}
		servers[name] = entry
	}
	for _, m := range want {
		entry[m.name] = asTOML(m.value)
	}
	return out, verifyTOML(out, tree)
}

func appendTable(text []byte, key, name, newline string, want object) []byte {
	out := slices.Clone(text)
	if len(out) > 0 {
		if out[len(out)-1] != '\n' {
			out = append(out, newline...)
		}
		out = append(out, newline...)
	}
	out = append(out, "["+tomlKey(key)+"."+tomlKey(name)+"]"+newline...)
	for _, m := range want {
		out = append(out, tomlKey(m.name)+" = "+tomlValue(m.value)+newline...)
	}
	return out
}

// updateTable changes the members of a table that has a header of its own.
func updateTable(text []byte, path []string, newline string, want object) ([]byte, error) {
	all, err := statements(text)
	if err != nil {
		return nil, err
	}
	header := slices.IndexFunc(all, func(s statement) bool { return s.header && slices.Equal(s.path, path) })
	if header < 0 {
		return nil, fmt.Errorf("%s is written in one line; change it by hand", strings.Join(path, "."))
	}
	var out []byte
	at := all[header].to
	out = append(out, text[:at]...)
	if out[len(out)-1] != '\n' {
		out = append(out, newline...)
	}
	for _, m := range want {
		if !slices.ContainsFunc(all, func(s statement) bool { return hasPrefix(s.path, append(slices.Clone(path), m.name)) }) {
			out = append(out, tomlKey(m.name)+" = "+tomlValue(m.value)+newline...)
		}
	}
	for _, s := range all[header+1:] {
		line := text[s.from:s.to]
		for _, m := range want {
			if !s.header && slices.Equal(s.path, append(slices.Clone(path), m.name)) {
				line = replaceValue(line, m)
			}
		}
		out = append(out, line...)
	}
	return out, nil
}

// replaceValue writes another value into a statement and keeps what stands
// before the key and behind the value.
func replaceValue(line []byte, m member) []byte {
	rest := strings.TrimRight(string(line), "\r\n")
	end := string(line[len(rest):])
	comment := ""
	for i := range len(rest) {
		if rest[i] == '#' {
			if _, err := toml.Decode(rest[:i], &map[string]any{}); err == nil {
				comment = " " + rest[i:]
				break
			}
		}
	}
	indent := rest[:len(rest)-len(strings.TrimLeft(rest, " \t"))]
	var now map[string]any
	if _, err := toml.Decode(rest, &now); err == nil && reflect.DeepEqual(now[m.name], asTOML(m.value)) {
		return line
	}
	return []byte(indent + tomlKey(m.name) + " = " + tomlValue(m.value) + comment + end)
}

// removeTOML takes the tables [key.name] out, with the tables below them.
// Comments that follow them stay.
func removeTOML(raw []byte, key string, names []string) ([]byte, error) {
	tree, err := parseTOML(raw)
	if err != nil {
		return nil, err
	}
	text := bytes.TrimPrefix(raw, bom)
	all, err := statements(text)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(raw[:len(raw)-len(text)])
	inside := false // a table that goes
	var kept []byte // comments and empty lines that may belong to it, or to what follows
	for _, s := range all {
		line := text[s.from:s.to]
		goes := slices.ContainsFunc(names, func(name string) bool { return hasPrefix(s.path, []string{key, name}) })
		switch {
		case goes:
			inside, kept = s.header || inside, nil
		case s.path == nil && inside:
			kept = append(kept, line...)
		default:
			// The empty line before the table has done for the one behind it.
			if inside && (len(out) == 0 || bytes.HasSuffix(out, []byte("\n\n")) || bytes.HasSuffix(out, []byte("\r\n\r\n"))) {
				kept = bytes.TrimPrefix(bytes.TrimPrefix(kept, []byte("\r")), []byte("\n"))
			}
			inside = false
			out, kept = append(append(out, kept...), line...), nil
		}
	}
	out = append(out, kept...)
	if servers, ok := tree[key].(map[string]any); ok {
		for _, name := range names {
			delete(servers, name)
		}
	}
	return out, verifyTOML(out, tree)
}

// verifyTOML makes sure that out says what is wanted, and nothing else. An
// empty table is as good as none.
func verifyTOML(out []byte, want map[string]any) error {
	got, err := parseTOML(out)
	if err != nil {
		return fmt.Errorf("it cannot be changed safely: %w", err)
	}
	if !reflect.DeepEqual(withoutEmpty(got), withoutEmpty(want)) {
		return errors.New("it cannot be changed safely; change it by hand")
	}
	return nil
}

func withoutEmpty(tree map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range tree {
		if sub, ok := v.(map[string]any); ok {
			if sub = withoutEmpty(sub); len(sub) == 0 {
				continue
			}
			out[k] = sub
			continue
		}
		out[k] = v
	}
	return out
}

// asTOML is a value as the parser would decode it.
func asTOML(value any) any {
	if list, ok := value.([]string); ok {
		out := make([]any, len(list))
		for i := range list {
			out[i] = list[i]
		}
		return out
	}
	return value
}

func tomlKey(name string) string {
	if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" {
		return name
	}
	return tomlString(name)
}

func tomlValue(value any) string {
	switch v := value.(type) {
	case []string:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = tomlString(v[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return tomlString(v)
	default:
		return fmt.Sprint(v)
	}
}

// tomlString prefers the form in which a backslash is a backslash.
func tomlString(s string) string {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if strings.ContainsRune(s, '\\') && !strings.ContainsRune(s, '\'') && !strings.ContainsFunc(s, control) {
		return "'" + s + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case control(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
