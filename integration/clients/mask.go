package clients

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/messages"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/tailscale/hujson"
)

// hidden stands where a secret would.
const hidden = "•••"

const (
	// longLine is how long a line may be before a file is shown in another
	// layout than its own.
	longLine = 400
	// shownLine is how much of a line is shown.
	shownLine = 300
	// leastMasked keeps values from being hidden that stand everywhere.
	leastMasked = 6
)

// holders are members whose values are for one server alone, and mostly keys.
var holders = map[string]bool{"env": true, "environment": true, "headers": true, "http_headers": true}

var (
	number   = lazyregexp.New(`^-?[0-9.]{1,5}$`)
	anyRef   = lazyregexp.New(`\$?\{[^}]*\}|\$[A-Z_][A-Z0-9_]*`)
	redacted = lazyregexp.New(`\[REDACTED(:[^\]]*)?\]`)
)

// harmless reports whether a value of a variable or header can be shown: it is
// short, a path, or only names where the value comes from.
func harmless(name, value string) bool {
	rest := strings.TrimSpace(anyRef().ReplaceAllString(value, ""))
	switch {
	case rest == "", strings.EqualFold(rest, "Bearer"), strings.EqualFold(rest, "Basic"), value == "true", value == "false", number().MatchString(value):
		return true
	case scrub.Secret(name, value):
		return false
	}
	return strings.HasPrefix(value, "/") || strings.HasPrefix(value, "~/") || strings.HasPrefix(value, "./")
}

// shown is a unified diff of a change, without what looks like a secret.
func shown(c *Client, path string, before, after []byte) string {
	a, b := layout(c, before, after)
	text := diff.Diff(path, a, path, b)
	// Its first line repeats the next two.
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	specs := make([]*messages.ServerSpec, 0, len(lines))
	for _, line := range lines {
		// Each by itself, and none of them a flag.
		specs = append(specs, &messages.ServerSpec{Args: []string{" " + line}})
	}
	for _, raw := range [][]byte{before, after} {
		for _, args := range commandLines(c, raw) {
			specs = append(specs, &messages.ServerSpec{Args: args})
		}
	}
	secrets := scrub.New(specs)
	for i, line := range lines {
		line = redacted().ReplaceAllString(secrets.Text(strings.TrimSuffix(line, "\r")), hidden)
		line = strings.Map(func(r rune) rune {
			const joiner, non = '\u200d', '\u200c' // letters and emoji need them
			if r != '\t' && r != joiner && r != non && messages.Steers(r) {
				return unicode.ReplacementChar
			}
			return r
		}, line)
		if n := utf8.RuneCountInString(line); n > shownLine {
			line = fmt.Sprintf("%s… (%d more characters)", string([]rune(line)[:shownLine]), n-shownLine)
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n") + "\n"
}

// commandLines are the arguments that stand anywhere in a text: what follows
// --api-key is a secret though its line does not say so.
func commandLines(c *Client, raw []byte) [][]string {
	var tree map[string]any
	if c.format == formatTOML {
		tree, _ = parseTOML(raw) // of what is broken nothing is shown
	} else if d, err := parseJSON(raw); err == nil {
		_ = decodeJSON(&d.root, &tree) // as above
	}
	var all [][]string
	var walk func(name string, value any)
	walk = func(name string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, sub := range v {
				walk(key, sub)
			}
		case []any:
			if name == "args" || name == "command" {
				all = append(all, stringList(v))
			}
			for _, sub := range v {
				walk("", sub)
			}
		}
	}
	walk("", tree)
	return all
}

// layout returns both texts as they are compared.
func layout(c *Client, before, after []byte) (a, b []byte) {
	if c.format == formatTOML {
		return maskTOML(before), maskTOML(after)
	}
	long := hasLongLine(before) || hasLongLine(after)
	return maskJSON(before, long), maskJSON(after, long)
}

func hasLongLine(text []byte) bool {
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if len(line) > longLine {
			return true
		}
	}
	return false
}

// maskJSON is a text whose secrets are hidden, with its lines as they are, or,
// where these are too long to be read, in lines of its members.
func maskJSON(raw []byte, relayout bool) []byte {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	d, err := parseJSON(raw)
	if err != nil {
		return []byte("(it is not shown)\n") // nothing of it would be hidden
	}
	masker{}.value(&d.root, "", false)
	if relayout {
		d.root.Format()
	}
	text := d.root.Pack()
	if !d.none {
		text = bytes.TrimSuffix(text, []byte("\n"))
	}
	return text
}

// masker remembers which names of members say that they hold a secret: a file
// may have very many members.
type masker map[string]bool

func (m masker) value(v *hujson.Value, name string, inHolder bool) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		for i := range value.Members {
			key := nameOf(&value.Members[i])
			m.value(&value.Members[i].Value, key, inHolder || holders[key])
		}
	case *hujson.Array:
		for i := range value.Elements {
			m.value(&value.Elements[i], name, inHolder)
		}
	case hujson.Literal:
		if value.Kind() == '"' && (inHolder || m.suspicious(name)) && isSecret(name, value.String(), inHolder) {
			v.Value = hujson.String(hidden)
		}
	}
}

// suspicious reports whether some value could be secret under a name.
func (m masker) suspicious(name string) bool {
	known, ok := m[name]
	if !ok {
		known = scrub.NameSays(name)
		m[name] = known
	}
	return known
}

// isSecret reports whether a value is hidden. Of command lines and addresses
// only a part is, which is done later.
func isSecret(name, value string, inHolder bool) bool {
	switch {
	case inHolder:
		return !harmless(name, value)
	case isArgument(name):
		return false
	}
	return len(value) >= leastMasked && scrub.Named(name, value)
}

// isArgument reports whether a member holds a command line or an address, of
// which only the secret part is hidden.
func isArgument(name string) bool {
	switch name {
	case "args", "command", "url", "serverUrl", "httpUrl":
		return true
	}
	return false
}

// maskTOML hides the values that look secret, wherever they stand.
func maskTOML(raw []byte) []byte {
	tree, err := parseTOML(raw)
	if err != nil {
		return []byte("(it is not shown)\n")
	}
	var values []string
	secretsOfTOML(tree, "", false, &values)
	text := string(bytes.TrimPrefix(raw, bom))
	for _, v := range values {
		quoted := tomlString(v)
		text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], hidden)
		for line := range strings.SplitSeq(v, "\n") {
			if line = strings.TrimSpace(line); len(line) >= leastMasked {
				text = strings.ReplaceAll(text, line, hidden)
			}
		}
	}
	return []byte(text)
}

func secretsOfTOML(value any, name string, inHolder bool, to *[]string) {
	switch v := value.(type) {
	case map[string]any:
		for key, sub := range v {
			secretsOfTOML(sub, key, inHolder || holders[key], to)
		}
	case []any:
		for _, sub := range v {
			secretsOfTOML(sub, name, inHolder, to)
		}
	case []map[string]any:
		for _, sub := range v {
			secretsOfTOML(sub, name, inHolder, to)
		}
	case string:
		if len(v) >= leastMasked && isSecret(name, v, inHolder) {
			*to = append(*to, v)
		}
	}
}
