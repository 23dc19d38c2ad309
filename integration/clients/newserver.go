package clients

import (
	"fmt"

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
