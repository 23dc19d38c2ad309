package clients

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// server is a client's entry as metamcp's configuration has it.
type server struct {
	name    string
	members object
	notes   []string
	skip    string // why it is not taken; "": it is
	// identity is what two servers have in common that are one.
	identity string
}

// quiet are members that say nothing to another program than the client.
var quiet = map[string]bool{
	"source": true, "settings": true, "gallery": true, "version": true, "alwaysLoad": true, "$schema": true, "name": true, "id": true,
	"trust": true, "type": true, "transport": true, "transportType": true, "command": true, "args": true, "enabled": true, "disabled": true,
	"supports_parallel_tool_calls": true, "required": true,
}

// closing are members that say which tools may be used.
var closing = []string{"includeTools", "excludeTools", "enabled_tools", "disabled_tools", "disabledTools", "tools"}

// translate makes a server of an entry. f belongs to this entry alone.
func translate(c *Client, e *Entry, executable string, f *filler) server {
	s := server{name: e.Name}
	used := map[string]bool{}
	take := func(names ...string) any {
		var found any
		for _, n := range names {
			used[n] = true
			if v := e.members[n]; v != nil && found == nil {
				found = v
			}
		}
		return found
	}
	address, _ := take("url", "serverUrl", "httpUrl").(string)
	switch {
	case e.Command != "" && isMetamcp(e.Command, executable) && Serves(e.Args):
		s.skip = "it is metamcp itself"
	case e.Command == "" && address == "":
		s.skip = "it has neither a command nor a url: the client starts it in a way of its own"
	case badName(e.Name):
		s.skip = "its name is empty, very long or holds control characters; rename it there"
	}
	if s.skip != "" {
		return s
	}
	set := func(name string, value any) { s.members = append(s.members, member{name, value}) }
	if e.Command != "" {
		f.stdio(e, set, take)
	} else if s.skip = f.remote(e, address, set, take); s.skip != "" {
		return s
	}
	if e.Off {
		set("disabled", true)
	}
	f.times(c, take, set)
	if text, ok := take("description").(string); ok && text != "" {
		set("description", f.text(text))
	}
	f.leftOut(e, used)
	s.notes = f.notes
	s.identify()
	return s
}

func badName(name string) bool {
	const most = 128
	return strings.TrimSpace(name) == "" || len(name) > most || strings.ContainsFunc(name, unicode.IsControl)
}

// stdio translates what a process is started with.
func (f *filler) stdio(e *Entry, set func(string, any), take func(...string) any) {
	set("command", f.text(e.Command))
	args := make([]string, len(e.Args))
	for i := range e.Args {
		args[i] = f.text(e.Args[i])
	}
	set("args", args)
	env := take("env", "environment")
	if inner, ok := e.members["command"].(map[string]any); ok {
		env = inner["env"]
	}
	if pairs := f.pairs("env", env); len(pairs) > 0 {
		set("env", pairs)
	}
	if names := stringList(take("env_vars")); len(names) > 0 {
		set("inheritEnv", names)
	}
	cwd, _ := take("cwd").(string)
	cwd = f.text(cwd)
	if f.project != "" && !strings.HasPrefix(cwd, "${") && !strings.HasPrefix(cwd, "~") && !filepath.IsAbs(cwd) {
		cwd = filepath.Join(escape(f.project), cwd) // where the client would start it
	}
	if cwd != "" {
		set("cwd", cwd)
	}
}

// pairs translates an object of strings, sorted by name. Numbers and booleans
// are taken as they are written.
func (f *filler) pairs(what string, value any) object {
	all, ok := value.(map[string]any)
	if value != nil && !ok {
		f.note("its %s is not an object and was left out", what)
	}
	out := map[string]string{}
	for name, v := range all {
		switch v := v.(type) {
		case string:
			out[name] = f.text(v)
		case json.Number, bool, int64, float64:
			out[name] = fmt.Sprint(v)
		case nil: // as good as absent
		default:
			f.note("%s.%s is no text and was left out", what, name)
		}
	}
	return stringsOf(out)
}

// remote translates what a server is reached by; it returns why it cannot be.
func (f *filler) remote(e *Entry, address string, set func(string, any), take func(...string) any) string {
	kind, _ := take("type", "transport", "transportType").(string)
	switch kind {
	case "sse":
	case "ws", "websocket":
		return "it speaks over a WebSocket, which metamcp does not"
	default:
		kind = "http"
		u, err := url.Parse(address)
		_, plain := e.members["url"].(string)
		// Gemini CLI's url is SSE; its httpUrl is not.
		if err == nil && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse") || f.refs == refGemini && plain && e.members["httpUrl"] == nil && e.members["type"] == nil {
			kind = "sse"
		}
	}
	set("type", kind)
	set("url", f.text(address))
	headers := f.pairs("headers", take("headers", "http_headers"))
	if variables, ok := take("env_http_headers").(map[string]any); ok {
		from := map[string]string{}
		for name, v := range variables {
			if variable, ok := v.(string); ok {
				from[name] = "${" + variable + "}"
			}
		}
		headers = append(headers, stringsOf(from)...)
	}
	if variable, ok := take("bearer_token_env_var").(string); ok && variable != "" {
		headers = append(headers, member{"Authorization", "Bearer ${" + variable + "}"})
	}
	if len(headers) > 0 {
		set("headers", headers)
	}
	if _, ok := e.members["oauth"].(map[string]any); ok { // OpenCode's may be false
		if login := f.oauth(take("oauth").(map[string]any)); len(login) > 0 {
			set("oauth", login)
		}
	}
	return ""
}

// oauth translates how the server is logged in to, as Claude Code, Gemini CLI and
// OpenCode have it: a client that the user has registered, and what it may do.
func (f *filler) oauth(members map[string]any) (login object) {
	id, _ := members["clientId"].(string)
	secret, _ := members["clientSecret"].(string)
	var scopes []string
	for _, name := range []string{"scopes", "scope"} {
		text, _ := members[name].(string)
		for _, scope := range append(stringList(members[name]), text) {
			for _, one := range strings.Fields(scope) {
				scopes = append(scopes, f.text(one))
			}
		}
	}
	port, isNumber := whole(members["callbackPort"])
	taken := map[string]bool{"clientId": id != "", "clientSecret": secret != "" && id != "", "scopes": true, "scope": true, "enabled": true}
	if taken["clientId"] {
		login = append(login, member{"clientId", f.text(id)})
	}
	if taken["clientSecret"] {
		login = append(login, member{"clientSecret", f.text(secret)})
	}
	if len(scopes) > 0 {
		login = append(login, member{"scopes", scopes})
	}
	const most = 65_535
	if isNumber && port >= 1 && port <= most && port == math.Trunc(port) {
		taken["callbackPort"] = true
		login = append(login, member{"redirectPort", int64(port)})
	}
	var rest []string
	for name, v := range members {
		if !taken[name] && v != nil {
			rest = append(rest, "oauth."+name)
		}
	}
	if len(rest) > 0 {
		slices.Sort(rest)
		f.note("left out, since metamcp has no such setting or does not take its value: %s", strings.Join(rest, ", "))
	}
	return login
}

// times translates how long things may take, where metamcp has the same bound.
func (f *filler) times(c *Client, take func(...string) any, set func(string, any)) {
	const second, day, week = 1000, 24 * 3600 * 1000, 7 * 24 * 3600 * 1000
	millis := func(name string, value any, unit, least, most float64) {
		if n, ok := whole(value); ok && n*unit >= least {
			set(name, int64(math.Min(math.Round(n*unit), most)))
		}
	}
	switch c.format {
	case formatTOML:
		millis("timeoutMs", take("tool_timeout_sec"), second, 1, week)
		if v := take("startup_timeout_sec"); v != nil {
			millis("startupTimeoutMs", v, second, 1, day)
		} else {
			millis("startupTimeoutMs", take("startup_timeout_ms"), 1, 1, day)
		}
	case formatOpenCode:
		// It bounds the start. Shorter than the half minute that metamcp gives
		// says only how long OpenCode would wait.
		const usual = 30_000
		millis("startupTimeoutMs", take("timeout"), 1, usual, day)
	default:
		// Claude Code ignores less than a second, and nobody else means it.
		millis("timeoutMs", take("timeout"), 1, second, week)
	}
}

// leftOut says which members have no place here.
func (f *filler) leftOut(e *Entry, used map[string]bool) {
	var names, tools []string
	for name := range e.members {
		switch {
		case used[name] || quiet[name]:
		case slices.Contains(closing, name):
			tools = append(tools, name)
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Sort(tools)
	if len(tools) > 0 {
		f.note("%s is not taken: write metamcp.toolRules for what tools may be used", strings.Join(tools, ", "))
	}
	if i := slices.Index(names, "envFile"); i >= 0 {
		names = slices.Delete(names, i, i+1)
		f.note("envFile is not read: write its variables into env, or start metamcp with them")
	}
	if len(names) > 0 {
		f.note("left out, since metamcp has no such setting: %s", strings.Join(names, ", "))
	}
}
