package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/metamcp/metamcp/integration/jsonc"
	"github.com/metamcp/metamcp/integration/spelling"
	"github.com/metamcp/metamcp/messages"
)

// builder collects the files into one configuration.
type builder struct {
	src   *resolvedSources
	known known
	cfg   *Config
	ex    *expander
	at    map[string]place // by server name
	// rulesAt is that of the settings' reader, from one file to the next.
	rulesAt string
}

// builder has nothing yet; stateDir is called when the first secret is asked for.
func (r *resolvedSources) builder(stateDir func() string, before known) *builder {
	return &builder{
		src: r, known: before,
		cfg: &Config{Settings: DefaultSettings(), byName: map[string]*messages.ServerSpec{}, leftOut: map[string]*messages.Error{}, places: map[string]Problem{}, fixed: map[string][]byte{}},
		ex:  &expander{lookup: r.env.lookup, secrets: &secretSource{stateDir: stateDir, known: before}},
		at:  map[string]place{},
	}
}

// place is where a server stands in the list and in its file.
type place struct {
	index int
	doc   *document
	line  int
}

func (b *builder) file(c content) error {
	switch {
	case errors.Is(c.err, fs.ErrNotExist):
		hint := "put it back"
		if b.src.filesFrom != "" {
			hint = "check the path, or remove it from " + b.src.filesFrom
		}
		return failure(hint, "the configuration file %s does not exist", c.path)
	case c.err != nil:
		return failure("check the file and its permissions", "the configuration file %s cannot be read: %s", c.path, reason(c.err))
	}
	if !c.regular {
		b.cfg.fixed[c.path] = c.data
	}
	doc, err := parseDocument(c.path, c.data)
	var s *syntaxError
	if errors.As(err, &s) {
		return failure(s.hint, "%s:%d:%d: %s", c.path, s.line, s.column, s.message)
	}
	if err != nil {
		return failure("", "%s: %s", c.path, err)
	}
	root, ok := doc.root.Value.(*hujson.Object)
	if !ok {
		line, column := doc.position(doc.root.StartOffset)
		return failure(`write {"mcpServers": {…}}`, "%s:%d:%d: expected an object, found %s", c.path, line, column, jsonc.Kind(&doc.root))
	}
	b.cfg.Files = append(b.cfg.Files, c.path)
	return b.members(doc, root)
}

// reason is the cause of a file error without the path, which is named already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// topNames are the members of a file that are ours to read.
var topNames = []string{"mcpServers", "servers", "metamcp"}

func (b *builder) members(doc *document, root *hujson.Object) error {
	found, read := false, false
	var refused *Problem
	for i := range root.Members {
		m := &root.Members[i]
		switch name := memberName(m); name {
		case "mcpServers", "servers":
			found = true
			if p := b.servers(doc, name, &m.Value); p != nil {
				refused = p
			} else {
				read = true
			}
		case "metamcp":
			found = true
			r := settingsReader{doc: doc, ex: b.ex, s: &b.cfg.Settings, rulesAt: b.rulesAt, places: b.cfg.places, inForce: b.known.settings}
			r.read(&m.Value)
			b.rulesAt = r.rulesAt
			if r.fatal != nil {
				return failure(r.fatal.Hint, "%s: %s", r.fatal.Position(), r.fatal.Message)
			}
			b.problems(r.problems)
			b.warnings(r.warnings)
		default:
			// Other programs keep their own things beside ours; only what is
			// nearly one of our names is worth a word.
			if misplaced(name, &m.Value) {
				b.warnings([]Problem{doc.problem(&m.Name, shorten(name)+" is ignored here", fmt.Sprintf(`write it as "metamcp": {%q: …}`, name))})
			} else if c := nearest(name, topNames); c != "" && spelling.Distance(strings.ToLower(name), strings.ToLower(c)) <= 2 {
				b.warnings([]Problem{doc.problem(&m.Name, shorten(name)+" is not known and ignored", "did you mean "+c+"?")})
			}
		}
	}
	if refused != nil && !read && b.known.servesFrom(doc.file) {
		// They would all end.
		return failure(refused.Hint, "%s: %s", refused.Position(), refused.Message)
	}
	if !found {
		b.warnings([]Problem{doc.problem(&doc.root, "the file has neither mcpServers nor servers nor metamcp", `write {"mcpServers": {…}}`)})
	}
	return nil
}

func (b *builder) problems(list []Problem) {
	for _, p := range list {
		b.cfg.Problems = appendBounded(b.cfg.Problems, p)
	}
}

func (b *builder) warnings(list []Problem) {
	for _, p := range list {
		b.cfg.Warnings = appendBounded(b.cfg.Warnings, p)
	}
}

// servers reads one object of servers. Anything else holds none, which is returned, and
// a problem unless it is null.
func (b *builder) servers(doc *document, key string, v *hujson.Value) *Problem {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		p := doc.problem(v, fmt.Sprintf("%s: expected an object, found %s", key, jsonc.Kind(v)), `write "`+key+`": {} for none`)
		if v.Value.Kind() != 'n' {
			b.problems([]Problem{p})
		}
		return &p
	}
	if len(b.cfg.Servers) == 0 {
		n := len(obj.Members)
		b.cfg.Servers, b.cfg.byName, b.at = make([]*messages.ServerSpec, 0, n), make(map[string]*messages.ServerSpec, n), make(map[string]place, n)
	}
	for i := range obj.Members {
		if m := &obj.Members[i]; b.nameable(doc, m) {
			b.server(doc, memberName(m), m)
		}
	}
	return nil
}

// nameable says whether an entry's name can be that of a server, and leaves the entry
// out where it cannot.
func (b *builder) nameable(doc *document, m *hujson.ObjectMember) bool {
	name := memberName(m)
	what, hint := checkName(name), "give it a short name; until then the entry is left out"
	if !named(m) {
		what, hint = fmt.Sprintf("the name of the server %s is not written in UTF-8", quote(name)), notUTF8+"; until then the entry is left out"
		name = string([]rune(name)) // as a client writes it
	}
	if what == "" {
		return true
	}
	p := doc.problem(&m.Name, what, hint)
	b.problems([]Problem{p})
	b.cfg.leftOut[name] = misconfigured(name, p)
	return false
}

// server reads one entry and puts it in the place of an earlier one of that name.
func (b *builder) server(doc *document, name string, m *hujson.ObjectMember) {
	line := doc.line(m.Name.StartOffset)
	e := entry{
		doc: doc, name: name, env: b.src.env, ex: b.ex, home: b.src.home,
		spec: &messages.ServerSpec{Name: name, Source: doc.file + ":" + strconv.Itoa(line)},
	}
	if obj, ok := m.Value.Value.(*hujson.Object); ok {
		b.ex.used, b.ex.secrets.user = nil, name
		e.read(&m.Value, obj)
		e.spec.Filled = b.ex.used
		b.ex.secrets.user = ""
	} else {
		e.mismatch(doc, "the entry", &m.Value, "an object")
	}
	if len(e.problems) > 0 {
		e.fail(&m.Value)
	}
	if e.spec.Disabled {
		// Nobody waits for a server that is turned off.
		b.warnings(e.problems)
	} else {
		b.problems(e.problems)
	}
	b.warnings(e.warnings)

	earlier, twice := b.at[name]
	if twice {
		old := b.cfg.Servers[earlier.index]
		p := doc.problem(&m.Name, fmt.Sprintf("overrides the server of that name at %s", old.Source), "rename one of them to have both")
		if earlier.doc == doc {
			p.Message = fmt.Sprintf("the file has this server twice, in line %d and in line %d; the last one counts", earlier.line, line)
		}
		p.Server = name
		b.warnings([]Problem{p})
		b.cfg.Servers[earlier.index] = e.spec
	} else {
		earlier.index = len(b.cfg.Servers)
		b.cfg.Servers = append(b.cfg.Servers, e.spec)
	}
	b.at[name] = place{earlier.index, doc, line}
	b.cfg.byName[name] = e.spec
}
