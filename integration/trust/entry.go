package trust

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/registry"
)

// Kinds of names beside those of packages.
const (
	ServerName registry.Kind = "server" // in an MCP registry: io.github.user/weather
	Remote     registry.Kind = "remote" // a server behind a URL
)

// Entry is one line of the trust file: a name, or all names of a namespace.
type Entry struct {
	// Text is what was written.
	Text string
	// Kind is what sort of name it is.
	Kind registry.Kind
	// Name is the exact name; or the namespace, without the /* behind it.
	Name string
	// All says that the whole namespace is meant.
	All bool
	// explicit says that the kind was written and not inferred.
	explicit bool
	folded   string // the name as [fold] has it
}

const maxEntry = 2048 // bytes

var (
	scopedName  = lazyregexp.New(`^@[a-z0-9~][a-z0-9._~-]*/[a-z0-9~][a-z0-9._~-]*$`)
	scopeName   = lazyregexp.New(`^@[a-z0-9~][a-z0-9._~-]*$`)
	plainName   = lazyregexp.New(`^[a-z0-9~][a-z0-9._~-]*$`)
	pythonName  = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	serverName  = lazyregexp.New(`^[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)*/[a-zA-Z0-9._-]+$`)
	dottedName  = lazyregexp.New(`^[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+/[a-zA-Z0-9._-]+$`)
	serverSpace = lazyregexp.New(`^[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+$`)
	imageName   = lazyregexp.New(`^[a-z0-9][a-z0-9._-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*$`)
)

// ParseEntry reads an entry: a name, or a namespace with /* behind it, perhaps
// with its kind and a colon before it. Without a kind, @scope/name and a plain
// name are npm's, and a name like io.github.user/weather is a server's.
func ParseEntry(text string) (Entry, error) {
	text = strings.TrimSpace(text)
	fail := func(format string, args ...any) (Entry, error) {
		return Entry{}, fmt.Errorf("%s: %s", quote(text), fmt.Sprintf(format, args...))
	}
	switch {
	case text == "":
		return Entry{}, errors.New("an entry is empty")
	case len(text) > maxEntry:
		return fail("longer than %d bytes", maxEntry)
	}
	if odd := oddCharacters(text); odd != "" {
		return fail("it has %s, which no such name has", odd)
	}
	e := Entry{Text: text, Name: text}
	if kind, rest, found := strings.Cut(text, ":"); found && isKind(registry.Kind(kind)) {
		e.Kind, e.Name, e.explicit = registry.Kind(kind), rest, true
	}
	if before, all := strings.CutSuffix(e.Name, "/*"); all {
		e.Name, e.All = before, true
	}
	if strings.ContainsAny(e.Name, "*?[]") {
		return fail("only a whole namespace can be meant, with /* at its end; everything else is an exact name")
	}
	if e.Kind == "" {
		switch {
		case strings.Contains(e.Name, "://"):
			return fail("write remote: before the address of a server, mcpb: before that of a bundle")
		case strings.HasPrefix(e.Name, "@"), !strings.Contains(e.Name, "/") && !e.All:
			e.Kind = registry.NPM
		case dottedName().MatchString(e.Name), e.All && serverSpace().MatchString(e.Name):
			e.Kind = ServerName
		default:
			return fail("say what it is: npm:, pypi:, oci:, mcpb:, server: or remote: before it")
		}
	}
	if why := e.check(); why != "" {
		return fail("%s", why)
	}
	e.folded = fold(e.Name)
	return e, nil
}

func isKind(k registry.Kind) bool {
	switch k {
	case registry.NPM, registry.PyPI, registry.OCI, registry.MCPB, ServerName, Remote:
		return true
	default:
		return false
	}
}

// check normalises the name and says what is wrong with it.
func (e *Entry) check() string {
	switch e.Kind {
	case registry.NPM:
		if e.All && !scopeName().MatchString(e.Name) {
			return "only a scope of npm can be meant as a whole, as in @scope/*"
		}
		if !e.All && !scopedName().MatchString(e.Name) && !plainName().MatchString(e.Name) {
			return "it is no name of an npm package (those are in lower case)"
		}
	case registry.PyPI:
		if e.All {
			return "PyPI has no namespaces; name the package"
		}
		if !pythonName().MatchString(e.Name) {
			return "it is no name of a PyPI package"
		}
		e.Name = pythonNormal(e.Name)
	case registry.OCI:
		if !imageName().MatchString(e.Name) {
			return "it is no name of an image (without a tag)"
		}
		// The first part is a host where it has a dot or a port; all images of a
		// host are those of everybody.
		host, _, more := strings.Cut(e.Name, "/")
		if e.All && strings.ContainsAny(host, ".:") && !more {
			return "name an owner behind the host, as in oci:HOST/OWNER/*"
		}
	case registry.MCPB, Remote:
		name, path, err := address(e.Name)
		if err != nil {
			return err.Error()
		}
		if e.Kind == registry.MCPB && e.All && strings.Trim(path, "/") == "" {
			return "name an owner behind the host, as in mcpb:https://HOST/OWNER/*"
		}
		e.Name = name
	case ServerName:
		if e.All && !serverSpace().MatchString(e.Name) {
			return "a namespace of a registry looks like io.github.user"
		}
		if !e.All && !serverName().MatchString(e.Name) {
			return "a name in a registry looks like io.github.user/weather"
		}
	default:
		return "its kind is not known"
	}
	return ""
}

// key tells entries apart that mean different names.
func (e *Entry) key() string {
	key := string(e.Kind) + ":" + e.Name
	if e.All {
		key += "/*"
	}
	return key
}

// matches says whether exactly that name is meant; the name must be [normal].
func (e *Entry) matches(kind registry.Kind, name string) bool {
	switch {
	case kind != e.Kind:
		return false
	case !e.All:
		return name == e.Name
	}
	rest, below := strings.CutPrefix(name, e.Name+"/")
	if !below || rest == "" {
		return false
	}
	// A namespace of npm, and of servers, has one level.
	return kind != registry.NPM && kind != ServerName || !strings.Contains(rest, "/")
}

// normal makes the one form in which a name is compared; ok is false for what
// is no name of its kind, which nothing matches.
func normal(kind registry.Kind, name string) (text string, ok bool) {
	switch kind {
	case registry.NPM:
		return name, scopedName().MatchString(name) || plainName().MatchString(name)
	case registry.PyPI:
		return pythonNormal(name), pythonName().MatchString(name)
	case registry.OCI:
		name = imageBase(name)
		return name, imageName().MatchString(name)
	case registry.MCPB, Remote:
		text, _, err := address(name)
		return text, err == nil
	case ServerName:
		return name, serverName().MatchString(name)
	default:
		return name, false
	}
}

// imageBase takes tag and digest off.
func imageBase(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name = name[:colon]
	}
	return name
}

var separatorRun = lazyregexp.New(`[-_.]+`)

// pythonNormal is the form of PEP 503.
func pythonNormal(name string) string {
	return strings.ToLower(separatorRun().ReplaceAllString(name, "-"))
}

// address makes the one form of an https URL in which it is compared, without
// query, and refuses what different programs read in different ways.
func address(text string) (normal, path string, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return "", "", errors.New("it is no https address")
	case u.User != nil || strings.ContainsAny(text, `\{}`):
		return "", "", errors.New("an address with a user, a backslash or a variable is never the same")
	case strings.ContainsFunc(u.Path, func(r rune) bool { return r == '%' || r == '\\' }), u.RawPath != "", strings.Contains(u.Path, "//"):
		return "", "", errors.New("its path is written in a way that not everybody reads alike")
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == "." || part == ".." {
			return "", "", errors.New("its path has . or .. in it")
		}
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" && port != "443" {
		host += ":" + port
	}
	return "https://" + host + strings.TrimSuffix(u.Path, "/"), u.Path, nil
}
