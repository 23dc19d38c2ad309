package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/messages"
)

// NewServer is an entry for metamcp's own configuration. Strings go in as they
// are, so that ${NAME} in them is filled in when the server starts.
type NewServer struct {
	Name        string
	Command     string // "" for a remote server
	Args        []string
	Env         map[string]string
	Cwd         string
	URL         string
	Type        string // of a remote server: "http" or "sse"
	Headers     map[string]string
	Description string
	Tags        []string
}

// CheckServerName says what is wrong with a name for a new entry; nil: nothing
// is. It is narrower than what a configuration may hold, so that every client,
// shell and script can write it.
func CheckServerName(name string) error {
	if !entryName().MatchString(name) {
		return fmt.Errorf("%q is no name for a server: use letters, digits, _ and -, at most 64", name)
	}
	return nil
}

// entry is the server as it is written.
func (n *NewServer) entry() object {
	var o object
	set := func(name string, value any) { o = append(o, member{name, value}) }
	if n.URL != "" {
		set("type", n.Type)
		set("url", n.URL)
	} else {
		set("command", n.Command)
		if len(n.Args) > 0 {
			set("args", n.Args)
		}
	}
	if len(n.Env) > 0 {
		set("env", stringsOf(n.Env))
	}
	if n.Cwd != "" {
		set("cwd", n.Cwd)
	}
	if len(n.Headers) > 0 {
		set("headers", stringsOf(n.Headers))
	}
	if n.Description != "" {
		set("description", n.Description)
	}
	if len(n.Tags) > 0 {
		set("tags", n.Tags)
	}
	return o
}

// Anchor binds what was typed in a folder to it, for a configuration that metamcp
// reads wherever it is started: a relative working folder becomes absolute, and
// without one a relative command. Arguments and variables stay, since nobody knows
// which of them are paths. The notes say what was changed, and what still depends
// on where metamcp is started. A server with a working folder finds its command
// and arguments below that.
func (n *NewServer) Anchor(folder string) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	bind := func(what string, path *string) {
		*path = filepath.Join(escape(folder), *path)
		note("its %s is written as %s, since clients start metamcp in other folders", what, *path)
	}
	if n.Cwd != "" {
		if unbound(n.Cwd) {
			bind("working folder", &n.Cwd)
		}
		return notes
	}
	if strings.ContainsFunc(n.Command, isSeparator) && unbound(n.Command) {
		bind("command", &n.Command)
	}
	const how = "is relative to the folder in which metamcp is started: write the full path, or start the server here with --cwd ."
	shown := scrub.New([]*messages.ServerSpec{{Args: n.Args}})
	for _, arg := range n.Args {
		if _, value, ok := strings.Cut(arg, "="); arg == "." || arg == ".." || dotted(arg) || ok && dotted(value) {
			note("the argument %s %s", shown.Text(arg), how)
		}
	}
	for _, m := range stringsOf(n.Env) {
		if dotted(m.value.(string)) {
			note("the value of the variable %s %s", m.name, how)
		}
	}
	return notes
}

// unbound reports whether a path depends on the folder in which it is used.
func unbound(path string) bool {
	return !strings.HasPrefix(path, "~") && !strings.HasPrefix(path, "${") && !filepath.IsAbs(path) &&
		filepath.VolumeName(path) == "" && !isSeparator(rune(path[0])) // on Windows, where these are not absolute
}

// dotted reports whether a text begins as a relative path that means to be one.
func dotted(text string) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(text, "."), ".")
	return rest != text && rest != "" && isSeparator(rune(rest[0]))
}

func isSeparator(r rune) bool { return r < 0x80 && os.IsPathSeparator(uint8(r)) }

// PlainSecret is a value of an entry that looks like a secret and is written
// out, where a reference should be.
type PlainSecret struct {
	Where string // "env", "header", "argument" or "url"
	Name  string // of the variable or header; of an argument its number, from 1
}

// String names the place, and never the value.
func (p PlainSecret) String() string {
	switch p.Where {
	case "env":
		return "the value of the variable " + p.Name
	case "header":
		return "the value of the header " + p.Name
	case "argument":
		return "argument " + p.Name
	}
	return "a part of the url"
}

// filledIn finds what is filled in when the server starts, with the scheme of a
// header before it.
var filledIn = lazyregexp.New(`(?:(?i:bearer|basic|token)\s+)?\$\{[^}]*\}`)

// PlainSecrets are the values that look like secrets, sorted by place. What a
// ${NAME} stands for is none.
func (n *NewServer) PlainSecrets() []PlainSecret {
	var found []PlainSecret
	for _, p := range []struct {
		where string
		pairs map[string]string
	}{{"env", n.Env}, {"header", n.Headers}} {
		for _, m := range stringsOf(p.pairs) {
			value := filledIn().ReplaceAllString(m.value.(string), "")
			secret := scrub.Secret(m.name, value)
			if p.where == "header" {
				secret = scrub.New([]*messages.ServerSpec{{Headers: map[string]string{m.name: value}}}).Text(value) != value
			}
			if secret && !harmless(m.name, value) {
				found = append(found, PlainSecret{p.where, m.name})
			}
		}
	}
	words := append([]string{n.Command}, n.Args...)
	for i := range words {
		words[i] = filledIn().ReplaceAllString(words[i], "")
	}
	set := scrub.New([]*messages.ServerSpec{{Args: words}})
	for i, w := range words {
		if set.Text(w) != w {
			found = append(found, PlainSecret{"argument", fmt.Sprint(i)})
		}
	}
	if url := filledIn().ReplaceAllString(n.URL, ""); scrub.New([]*messages.ServerSpec{{URL: url}}).Text(url) != url {
		found = append(found, PlainSecret{Where: "url"})
	}
	return found
}
