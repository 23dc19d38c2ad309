package config

import (
	"fmt"
	"path/filepath"
	"slices"
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
	// fatal is set where carrying on would be less safe than stopping.
	fatal *Problem
}

func (r *settingsReader) read(v *hujson.Value) {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		r.mismatch(r.doc, "metamcp", v, "an object")
		return
	}
	r.group("", obj)
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
			}
			continue
		}
		r.warn(&m.Name, suggestion(name, keyGroups[prefix]), "metamcp.%s is not known and ignored", shorten(path))
	}
}

// key reads one setting; where that fails the setting stays as it was.
func (r *settingsReader) key(k *Key, v *hujson.Value) {
	path, before := "metamcp."+k.Path, len(r.problems)
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
		if len(r.problems) > before {
			// Without the rule a tool that somebody closed would be open.
			p := r.problems[before]
			r.fatal = &p
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
	default:
		if k.Type == TypeTrace && (v.Value.Kind() == 't' || v.Value.Kind() == 'f') {
			b, _ := r.boolean(r.doc, path, v)
			err = k.Set(r.s, fmt.Sprint(b))
		} else if s, ok := r.str(r.doc, path, v, r.ex); ok {
			err = k.Set(r.s, s) // as a variable: it may have come from one
		}
	}
	if err != nil {
		r.bad(r.doc, v, "it is ignored until it is corrected", "%s: %s", path, err)
	}
}

// good leaves out the members of a list that the key does not take, and reports
// them.
func (r *settingsReader) good(k *Key, v *hujson.Value, list []string) []string {
	return slices.DeleteFunc(list, func(item string) bool {
		err := k.member(item)
		if err != nil {
			r.bad(r.doc, v, "it is left out until it is corrected", "metamcp.%s: %s", k.Path, err)
		}
		return err != nil
	})
}

// clash is a problem that settings have with each other.
type clash struct {
	Problem
	keys []string // their paths
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
