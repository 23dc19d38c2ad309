package config

import (
	"path"
	"slices"
	"strings"
)

// safeNames are the variables of the host that every child gets. They tell
// where things are and how text is written; none of them is a secret.
var safeNames = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "TMPDIR", "TMP", "TEMP", "XDG_*",
	// How to reach the network, and whom to trust there.
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
}

// safeWindowsNames are added on Windows, where most programs do not start
// without them.
var safeWindowsNames = []string{
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "USERNAME", "USERDOMAIN",
	"HOMEDRIVE", "HOMEPATH", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PROGRAMDATA", "ALLUSERSPROFILE", "PUBLIC",
	"COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432", "COMPUTERNAME", "OS",
	"PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS",
}

// environment is the host's, read once for a load.
type environment struct {
	windows bool
	host    []pair            // sorted by name, each name once
	values  map[string]string // by folded name
	safe    []pair            // those of host that every child gets, sorted
	plain   []string          // safe as KEY=value, shared by all entries without variables of their own
}

// inherit is what an entry's inheritEnv asks for.
type inherit struct {
	all   bool
	names []string
}

func newEnvironment(goos string, environ []string) *environment {
	e := &environment{windows: goos == "windows", values: make(map[string]string, len(environ))}
	for _, kv := range environ {
		// Windows keeps the working folders of drives as "=C:=C:\dir".
		if key, value, ok := strings.Cut(kv, "="); ok && key != "" {
			// As in the C library, the first of two equal names counts.
			if _, twice := e.values[e.fold(key)]; !twice {
				e.values[e.fold(key)] = value
				e.host = append(e.host, pair{key: key, value: value, joined: kv})
			}
		}
	}
	e.sort(e.host)
	names := safeNames
	if e.windows {
		names = slices.Concat(safeNames, safeWindowsNames)
	}
	// An exported shell function is code, whatever it is called.
	e.safe = slices.DeleteFunc(e.selected(names), func(p pair) bool { return strings.HasPrefix(p.value, "()") })
	e.plain = joinPairs(e.safe)
	return e
}

// fold makes names comparable: Windows ignores their case.
func (e *environment) fold(name string) string {
	if e.windows {
		return strings.ToUpper(name)
	}
	return name
}

func (e *environment) sort(pairs []pair) {
	slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(e.fold(a.key), e.fold(b.key)) })
}

func (e *environment) lookup(name string) (string, bool) {
	v, ok := e.values[e.fold(name)]
	return v, ok
}

// selected returns the host's variables that one of the patterns names. A
// pattern is a name in which * and ? stand for other characters.
func (e *environment) selected(patterns []string) []pair {
	exact := make(map[string]bool, len(patterns))
	var globs []string
	for _, p := range patterns {
		if p = e.fold(p); strings.ContainsAny(p, "*?[") {
			globs = append(globs, p)
		} else {
			exact[p] = true
		}
	}
	var out []pair
	for _, h := range e.host {
		key := e.fold(h.key)
		if exact[key] || slices.ContainsFunc(globs, func(g string) bool { ok, err := path.Match(g, key); return ok && err == nil }) {
			out = append(out, h)
		}
	}
	return out
}

// child returns the whole environment of a child as sorted KEY=value: the safe
// set, what inheritEnv adds, and over both the entry's own, which have passed
// through unique.
func (e *environment) child(own []pair, more inherit) []string {
	if len(own) == 0 && !more.all && len(more.names) == 0 {
		return e.plain
	}
	base := e.safe
	switch {
	case more.all:
		base = e.host
	case len(more.names) > 0:
		base = e.merge(e.safe, e.selected(more.names))
	}
	return joinPairs(e.merge(base, own))
}

// unique sorts pairs, keeps the last of equal names and joins them.
func (e *environment) unique(pairs []pair) []pair {
	if len(pairs) == 0 {
		return nil
	}
	sorted := slices.Clone(pairs)
	e.sort(sorted)
	out := sorted[:0]
	for _, p := range sorted {
		p.joined = p.key + "=" + p.value
		if n := len(out); n > 0 && e.fold(out[n-1].key) == e.fold(p.key) {
			out[n-1] = p
			continue
		}
		out = append(out, p)
	}
	return out
}

// merge puts over on top of base; both are sorted and hold each name once.
func (e *environment) merge(base, over []pair) []pair {
	out := make([]pair, 0, len(base)+len(over))
	for len(base) > 0 && len(over) > 0 {
		switch c := strings.Compare(e.fold(base[0].key), e.fold(over[0].key)); {
		case c < 0:
			out, base = append(out, base[0]), base[1:]
		case c > 0:
			out, over = append(out, over[0]), over[1:]
		default:
			out, base, over = append(out, over[0]), base[1:], over[1:]
		}
	}
	return append(append(out, base...), over...)
}

func joinPairs(pairs []pair) []string {
	out := make([]string, len(pairs))
	for i, p := range pairs {
		out[i] = p.joined
	}
	return out
}
