package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/metamcp/metamcp/messages"
	"github.com/tailscale/hujson"
)

// Defaults of an entry.
const (
	defaultTimeout        = 60 * time.Second
	defaultMaxTimeout     = 10 * time.Minute
	defaultStartupTimeout = 30 * time.Second
	// defaultDownloadTimeout is that of a server which its command downloads
	// first: half a package would be left where it was ended before.
	defaultDownloadTimeout = 3 * time.Minute
)

// entry reads one server's object.
type entry struct {
	reader
	warnings []Problem

	doc  *document
	name string
	env  *environment
	ex   *expander
	home string

	spec      *messages.ServerSpec
	own       []pair
	more      inherit
	transport string         // as written, normalised; "" when absent
	where     *hujson.Value  // the value of type or transportType
	maxAt     *hujson.Value  // the value of maxTimeoutMs
	healthAt  *hujson.Value  // the value of healthIntervalMs
	oauthAt   *hujson.Value  // the value of oauth
	alias     *time.Duration // Claude's timeout
	roots     bool           // may be asked for
	given     uint64         // a bit for each member of entryTable that is there
}

// read fills in the spec. Whatever is wrong is in problems afterwards.
func (e *entry) read(at *hujson.Value, obj *hujson.Object) {
	var last [64]int // by place in entryTable, of which given has a bit each
	for i := range obj.Members {
		m := &obj.Members[i]
		if place, known := entryIndex[memberName(m)]; known && m.Value.Value.Kind() != 'n' {
			last[place] = i
		}
	}
	for i := range obj.Members {
		m := &obj.Members[i]
		name := memberName(m)
		place, known := entryIndex[name]
		if !known {
			e.unknown(&m.Name, name)
			continue
		}
		if m.Value.Value.Kind() == 'n' {
			continue // null is as good as absent
		}
		if last[place] != i {
			// What it says must leave no trace, such as an environment that is inherited.
			e.warn(&obj.Members[last[place]].Name, "the last one counts", "%s is written twice", name)
			continue
		}
		e.given |= 1 << place
		e.member(name, &m.Value)
	}
	e.complete(at)
}

// has says whether the entry has that member, which must be of entryTable.
func (e *entry) has(name string) bool { return e.given&(1<<entryIndex[name]) != 0 }

func (e *entry) warn(at *hujson.Value, hint, format string, args ...any) {
	p := e.doc.problem(at, fmt.Sprintf(format, args...), hint)
	p.Server = e.name
	e.warnings = appendBounded(e.warnings, p)
}

func (e *entry) unknown(at *hujson.Value, name string) {
	hint, foreign := foreignNames[name]
	if !foreign && len(e.warnings) < maxReported {
		hint = suggestion(name, entryNames)
	}
	e.warn(at, hint, "%s is not known and ignored", shorten(name))
}

// member reads one known member into the spec.
func (e *entry) member(name string, v *hujson.Value) {
	s := e.spec
	switch name {
	case "command":
		if text, ok := e.str(e.doc, name, v, e.ex); ok {
			if s.Command = expandHome(text, e.home); strings.TrimSpace(text) == "" {
				e.bad(e.doc, v, "name the program to start", "command is empty")
			}
		}
	case "args":
		s.Args = e.stringList(e.doc, name, v, e.ex)
	case "env":
		e.own = e.stringMap(e.doc, name, v, e.ex)
		for _, p := range e.own {
			if p.key == "" || strings.ContainsAny(p.key, "=\x00") {
				e.bad(e.doc, v, "", "env: %q is no name for a variable", shorten(p.key))
			}
		}
	case "inheritEnv":
		e.inherit(v)
	case "cwd":
		if text, ok := e.str(e.doc, name, v, e.ex); ok {
			s.Cwd = expandHome(text, e.home)
		}
	case "url":
		if text, ok := e.str(e.doc, name, v, e.ex); ok {
			if s.URL = text; !isHTTPURL(text) {
				// It may hold a key, so it is not repeated.
				e.bad(e.doc, v, "", "url: expected an absolute http or https URL")
			}
		}
	case "type", "transportType":
		e.transportName(name, v)
	case "headers":
		e.headers(v)
	case "tls":
		e.tls(v)
	case "oauth":
		e.oauth(v)
	case "disabled":
		s.Disabled, _ = e.boolean(e.doc, name, v)
	case "scrub":
		if on, ok := e.boolean(e.doc, name, v); ok {
			s.Unscrubbed = !on
		}
	case "ask":
		e.ask(v)
	case "roots":
		e.roots, _ = e.boolean(e.doc, name, v)
	case "timeoutMs":
		e.millis(name, v, &s.Timeout)
	case "timeout":
		var d time.Duration
		if e.millis(name, v, &d) {
			e.alias = &d
		}
	case "maxTimeoutMs":
		if e.millis(name, v, &s.MaxTimeout) {
			e.maxAt = v
		}
	case "startupTimeoutMs":
		e.millis(name, v, &s.StartupTimeout)
	case "stopGraceMs":
		e.millis(name, v, &s.StopGrace)
	case "lifecycle":
		e.lifecycle(v)
	case "maxInstances":
		if n, ok := e.ranged(name, v, 1, maxInstances, ""); ok {
			s.MaxInstances = int(n)
		}
	case "retry":
		if text, ok := e.str(e.doc, name, v, e.ex); ok {
			switch p := messages.RetryPolicy(text); p {
			case messages.RetrySafe, messages.RetryAlways, messages.RetryNever:
				s.Retry = p
			default:
				e.bad(e.doc, v, suggestion(text, []string{"safe", "always", "never"}), "retry: expected safe, always or never, found %s", quote(text))
			}
		}
	case "healthIntervalMs":
		e.millis(name, v, &s.HealthEvery)
		e.healthAt = v
	case "limits":
		e.limits(v)
	case "maxInFlight":
		key := &entryTable[entryIndex[name]]
		if n, ok := e.ranged(name, v, key.Min, key.Max, ""); ok {
			s.MaxInFlight = int(n)
		}
	case "scope":
		if text, ok := e.str(e.doc, name, v, e.ex); ok {
			switch text {
			case "shared":
			case "session":
				s.Scope = messages.ScopeSession
			default:
				e.bad(e.doc, v, suggestion(text, []string{"shared", "session"}), "scope: expected shared or session, found %s", quote(text))
			}
		}
	case "description":
		s.Description, _ = e.str(e.doc, name, v, e.ex)
	case "tags":
		s.Tags = e.stringList(e.doc, name, v, e.ex)
	}
}

// complete checks the members against each other and fills in what is absent.
func (e *entry) complete(at *hujson.Value) {
	s := e.spec
	command, url := e.has("command"), e.has("url")
	switch {
	case command && url:
		e.bad(e.doc, at, "keep one of them", "it has both a command and a url")
	case !command && !url:
		e.bad(e.doc, at, `a local server needs "command", a remote one "url"`, "it has neither a command nor a url")
	case command && e.transport != "" && e.transport != "stdio":
		e.bad(e.doc, e.where, "remove it or give a url", "its type is %s, but it has a command", e.transport)
	case url && e.transport == "stdio":
		e.bad(e.doc, e.where, "write http or sse, or give a command", "its type is stdio, but it has a url")
	}
	switch {
	case command:
		s.Transport = messages.TransportStdio
	case e.transport == "sse":
		s.Transport = messages.TransportSSE
	default:
		s.Transport = messages.TransportHTTP
	}
	if s.OAuth != nil && s.HasAuthorization() {
		e.warn(e.oauthAt, "remove the one or the other", "the header Authorization is there too and is used in the place of oauth")
	}
	if s.HealthEvery > 0 && s.Lifecycle != messages.LifecycleKeepAlive {
		e.warn(e.healthAt, `add "lifecycle": "keep-alive", or remove it`, "healthIntervalMs does nothing without the lifecycle keep-alive")
	}
	if e.alias != nil && !e.has("timeoutMs") {
		s.Timeout = *e.alias
	}
	setDefault(&s.Timeout, defaultTimeout)
	if s.MaxTimeout > 0 && s.MaxTimeout < s.Timeout {
		e.warn(e.maxAt, "timeoutMs is used for both", "maxTimeoutMs is less than timeoutMs")
		s.MaxTimeout = s.Timeout
	}
	setDefault(&s.MaxTimeout, max(defaultMaxTimeout, s.Timeout))
	if s.RunsPackage() {
		setDefault(&s.StartupTimeout, defaultDownloadTimeout)
	}
	setDefault(&s.StartupTimeout, defaultStartupTimeout)
	if s.MaxInstances == 0 {
		s.MaxInstances = 1
	}
	if s.Retry == "" {
		s.Retry = messages.RetrySafe
	}
	if s.Transport == messages.TransportStdio {
		e.own = e.env.unique(e.own)
		s.Env = e.env.child(e.own, e.more)
	}
	if !e.has("ask") {
		s.Asks = defaultAsks()
	}
	s.Asks.Roots = e.roots
	s.Hash = specHash(s, e.own, e.more)
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// fail marks the spec as broken with what the reader found.
func (e *entry) fail(at *hujson.Value) {
	err := misconfigured(e.name, e.problems[0])
	for _, p := range e.problems[1:min(len(e.problems), 20)] {
		err.Details = append(err.Details, p.String())
	}
	e.spec.Err = err
	e.spec.Hash = brokenHash(e.doc.text[at.StartOffset:at.EndOffset])
	for i := range e.problems {
		e.problems[i].Server = e.name
	}
}

// misconfigured is the error of whoever wants to use the entry of that name.
func misconfigured(name string, first Problem) *messages.Error {
	name = messages.Cut(name, longestName)
	return &messages.Error{
		Code:    messages.CodeConfiguration,
		Message: fmt.Sprintf("server %q is not configured correctly, %s: %s", name, first.Position(), first.Message),
		Server:  name,
		Hint:    messages.HintSentence(cmp.Or(first.Hint, "correct the entry; the host reads the file again by itself")),
	}
}

// longestName is how many bytes a server's name may have.
const longestName = 128

// checkName says what is wrong with a server's name, or "".
func checkName(name string) string {
	switch {
	case strings.TrimSpace(name) == "":
		return "the name of the server is empty"
	case len(name) > longestName:
		return fmt.Sprintf("the name of the server is longer than %d bytes: %s", longestName, quote(name))
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Sprintf("the name of the server holds control characters: %s", quote(name))
	}
	return ""
}

// expandHome resolves a leading ~ where the home folder is known.
func expandHome(p, home string) string {
	if home == "" || p != "~" && !strings.HasPrefix(p, "~/") && !strings.HasPrefix(p, `~\`) {
		return p
	}
	return filepath.Join(home, p[1:])
}
