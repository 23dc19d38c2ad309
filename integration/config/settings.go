package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// settingsReader reads the "metamcp" object of one file into s.
type settingsReader struct {
	reader
	warnings []Problem
	doc      *document
	ex       *expander
	s        *Settings
	// rulesAt is where the tool rules stand that count so far; "": there are none.
	rulesAt string
	// places are where the settings stand that count so far, by path, and each tool rule by
	// [rulePath].
	places map[string]Problem
	// inForce are the settings that a reload finds; nil: it is the first load.
	inForce *Settings
	// fatal is set where carrying on would be less safe than stopping.
	fatal *Problem
}

func (r *settingsReader) read(v *hujson.Value) {
	if obj, ok := v.Value.(*hujson.Object); ok {
		r.group("", obj)
		return
	}
	r.mismatch(r.doc, "metamcp", v, "an object")
	if v.Value.Kind() != 'n' {
		r.stop(v, "metamcp", "")
	}
}

// stop fails the file: what was refused at v may be what somebody wrote to protect
// themselves, and the default does not; standard is that, "" where it has no text.
func (r *settingsReader) stop(v *hujson.Value, path, standard string) {
	p := r.doc.problem(v, path+" cannot be used", "")
	if n := len(r.problems); n > 0 && n <= maxReported { // else there was no room for it
		p = r.problems[n-1]
	}
	if p.Hint == "" {
		if standard != "" {
			standard = " (" + standard + ")"
		}
		p.Hint = "correct it, or remove it to use the default" + standard + "; metamcp does not do so by itself, as the default may allow more than you meant to"
	}
	r.fatal = &p
}

func (r *settingsReader) warn(at *hujson.Value, hint, format string, args ...any) {
	r.warnings = appendBounded(r.warnings, r.doc.problem(at, fmt.Sprintf(format, args...), hint))
}

// group reads the members below one prefix.
func (r *settingsReader) group(prefix string, obj *hujson.Object) {
	seen := make(map[string]bool, len(obj.Members))
	for i := range obj.Members {
		m := &obj.Members[i]
		name := memberName(m)
		path := name
		if prefix != "" {
			path = prefix + "." + name
		}
		if seen[name] {
			r.warn(&m.Name, "the last one counts", "metamcp.%s is written twice", shorten(path))
		}
		seen[name] = true
		if m.Value.Value.Kind() == 'n' {
			continue
		}
		if k := keyIndex[path]; k != nil {
			r.key(k, &m.Value)
			continue
		}
		if prefix == "" && keyGroups[name] != nil && name != "" {
			if inner, ok := m.Value.Value.(*hujson.Object); ok {
				r.group(name, inner)
			} else {
				r.mismatch(r.doc, "metamcp."+name, &m.Value, "an object")
				if guarding(name) {
					r.stop(&m.Value, "metamcp."+name, "")
				} else if r.inForce != nil {
					r.keepGroup(name)
				}
			}
			continue
		}
		r.warn(&m.Name, cmp.Or(elsewhere(prefix, name), suggestion(name, keyGroups[prefix])), "metamcp.%s is not known and ignored", shorten(path))
	}
}

// guarding says that there is a key below a prefix that fails its file.
func guarding(prefix string) bool {
	return slices.ContainsFunc(keyTable, func(k Key) bool { return k.Guards && strings.HasPrefix(k.Path, prefix+".") })
}

// keepGroup leaves in force what is below a prefix.
func (r *settingsReader) keepGroup(prefix string) {
	for i := range keyTable {
		if k := &keyTable[i]; strings.HasPrefix(k.Path, prefix+".") {
			k.keep(r.s, r.inForce)
		}
	}
}

// key reads one setting. Where that fails the setting stays as it was, and what was
// in force stays that at a reload; a key that guards something fails the file.
func (r *settingsReader) key(k *Key, v *hujson.Value) {
	before := r.refused
	r.value(k, v)
	switch {
	case r.refused == before:
		r.places[k.Path] = r.doc.problem(v, "", "")
	case k.Guards:
		r.stop(v, "metamcp."+k.Path, k.Default)
	case r.inForce != nil:
		k.keep(r.s, r.inForce)
	}
}

// until says what happens with a value that was refused.
func (r *settingsReader) until(k *Key, first string) string {
	switch {
	case k.Guards:
		return ""
	case r.inForce != nil:
		return "what was in force stays until it is corrected"
	}
	return first + " until it is corrected"
}

func (r *settingsReader) value(k *Key, v *hujson.Value) {
	path, before := "metamcp."+k.Path, r.refused
	var err error
	switch k.Type {
	case TypeInt, TypeMillis:
		if n, ok := r.whole(r.doc, path, v); ok {
			err = k.setNumber(r.s, n, fmt.Sprint(n))
		}
	case TypeBool:
		if b, ok := r.boolean(r.doc, path, v); ok {
			*k.ref(r.s).(*bool) = b
		}
	case TypeList:
		// Patterns have a $ of their own, so they know no variables.
		if v.Value.Kind() == '"' {
			if s, ok := r.str(r.doc, path, v, nil); ok {
				*k.ref(r.s).(*[]string) = r.good(k, v, []string{s})
			}
		} else if list := r.stringList(r.doc, path, v, nil); list != nil {
			*k.ref(r.s).(*[]string) = r.good(k, v, list)
		}
	case TypeRules:
		rules := r.toolRules(r.doc, path, v)
		if r.refused > before {
			return
		}
		if r.rulesAt != "" {
			r.warn(v, "write the rules that should count into one file", "%s: these rules replace all those at %s", path, r.rulesAt)
		}
		r.rulesAt = ""
		if len(rules) > 0 {
			r.rulesAt = fmt.Sprintf("%s:%d", r.doc.file, r.doc.line(v.StartOffset))
		}
		*k.ref(r.s).(*[]ToolRule) = rules
		for i := range rules { // each element is one: none was refused
			r.places[rulePath(i)] = r.doc.problem(&v.Value.(*hujson.Array).Elements[i], "", "")
		}
	default:
		if k.Type == TypeTrace && (v.Value.Kind() == 't' || v.Value.Kind() == 'f') {
			b, _ := r.boolean(r.doc, path, v)
			err = k.Set(r.s, fmt.Sprint(b))
		} else if s, ok := r.str(r.doc, path, v, r.ex); ok {
			err = k.Set(r.s, s) // as a variable: it may have come from one
		}
	}
	if err != nil {
		r.bad(r.doc, v, r.until(k, "it is ignored"), "%s: %s", path, err)
	}
}

// good leaves out the members of a list that the key does not take, and reports
// them.
func (r *settingsReader) good(k *Key, v *hujson.Value, list []string) []string {
	return slices.DeleteFunc(list, func(item string) bool {
		err := k.member(item)
		if err != nil {
			r.bad(r.doc, v, r.until(k, "it is left out"), "metamcp.%s: %s", k.Path, err)
		}
		return err != nil
	})
}

// rulePath names a tool rule, which counts from 0.
func rulePath(i int) string { return "toolRules[" + strconv.Itoa(i) + "]" }

// clash is a problem that settings have with each other.
type clash struct {
	Problem
	keys []string // their paths
}

// at is the problem at the first of its keys that a file has.
func (c clash) at(places map[string]Problem) Problem {
	p := c.Problem
	for _, key := range c.keys {
		if place, ok := places[key]; ok {
			p.File, p.Line, p.Column = place.File, place.Line, place.Column
			break
		}
	}
	return p
}

// resolve makes paths absolute and settings agree with each other.
func (s *Settings) resolve(home, cwd string) []clash {
	var problems []clash
	absolute := func(p string) string {
		if p == "" {
			return ""
		}
		if p = expandHome(p, home); !filepath.IsAbs(p) {
			p = filepath.Join(cwd, p)
		}
		return filepath.Clean(p)
	}
	if home == "" && (s.StateDir == "~" || len(s.StateDir) > 1 && s.StateDir[:2] == "~/") {
		s.StateDir = ""
		problems = append(problems, clash{Problem: Problem{
			Message: "no home folder is known, so nothing can be kept on disk",
			Hint:    "set HOME, or --state-dir to a folder that may be written to",
		}})
	}
	s.StateDir = absolute(s.StateDir)
	inState := func(p, name string) string {
		if p == "" && s.StateDir != "" {
			return filepath.Join(s.StateDir, name)
		}
		return absolute(p)
	}
	s.TrustFile = inState(s.TrustFile, "trusted-servers.json")
	if s.Audit.File == "off" {
		s.Audit.File = ""
	} else {
		s.Audit.File = inState(s.Audit.File, "audit.jsonl")
	}
	for _, p := range []*string{&s.HTTP.TLSCert, &s.HTTP.TLSKey, &s.HTTP.ClientCA} {
		*p = absolute(*p)
	}
	// Servers of others may have models of such names.
	local := s.Search.Embedder == "local" || s.Search.Embedder == "auto" && s.Search.EmbedderURL == ""
	if local && strings.HasSuffix(s.Search.Model, ".gguf") {
		s.Search.Model = absolute(s.Search.Model)
	}
	if s.Trace != "stderr" {
		s.Trace = absolute(s.Trace)
	}
	if s.Pool.MinPoolSize > s.Pool.PoolSize {
		problems = append(problems, clash{Problem{
			Message: fmt.Sprintf("pool.minPoolSize (%d) is more than pool.poolSize (%d)", s.Pool.MinPoolSize, s.Pool.PoolSize),
			Hint:    "poolSize is used for both",
		}, []string{"pool.minPoolSize", "pool.poolSize"}})
		s.Pool.MinPoolSize = s.Pool.PoolSize
	}
	s.Expose = slices.Compact(slices.Sorted(slices.Values(s.Expose)))
	if s.ExposeOnly && !slices.Contains(s.Expose, "tools") {
		problems = append(problems, clash{
			Problem{Message: "exposeOnly needs expose with tools: clients would see no tool at all", Hint: "the four tools stay until expose names tools"},
			[]string{"exposeOnly", "expose"},
		})
		s.ExposeOnly = false
	}
	return problems
}

// exposable is what clients can list of the servers themselves.
var exposable = []string{"tools", "prompts", "resources"}
