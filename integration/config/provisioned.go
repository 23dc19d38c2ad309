package config

import (
	"errors"
	"path/filepath"
	"strconv"

	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/messages"
	"github.com/tailscale/hujson"
)

// readLock reads a lock file as files are read for their hash; nothing for "".
func readLock(path string) []content {
	if path == "" {
		return nil
	}
	c := content{path: path}
	c.data, c.err = provisioned.Open(filepath.Dir(path)).Read()
	return []content{c}
}

// provisioned adds the servers of the lock file behind all others, and returns
// what it read. A file that cannot be used is a problem where none of its servers
// is in force, and else the error: they would all end.
func (b *builder) provisioned() (lock []content, err error) {
	cfg := b.cfg
	if dir := cfg.Settings.StateDir; dir != "" {
		cfg.lock = filepath.Join(dir, provisioned.FileName)
		lock = b.known.read(cfg.lock, readLock)
		err = b.locked(provisioned.Open(dir), &lock[0])
	}
	return lock, err
}

func (b *builder) locked(l *provisioned.Lock, c *content) error {
	err := c.err
	var servers []provisioned.Locked
	var doc *document
	if err == nil && c.data != nil {
		if servers, err = provisioned.Parse(c.data); err == nil {
			// It is JSON, so this parser takes it as well.
			doc, err = parseDocument(c.path, c.data)
		}
	}
	if err != nil {
		var broken *provisioned.BrokenError
		if errors.As(err, &broken) {
			err = broken.Cause
		}
		const hint = "mend it, or move it away and provision the servers again"
		if b.known.provisioned() {
			return failure(hint, "the lock file %s cannot be used: %s", c.path, err)
		}
		b.problems([]Problem{{
			File: c.path, Message: "the lock file cannot be used, so nothing that it names is started, and it was left as it is: " + err.Error(),
			Hint: hint,
		}})
		return nil
	}
	if len(servers) == 0 {
		return nil
	}
	entries := lockEntries(doc)
	for i := range servers {
		b.lockedServer(l, doc, entries[servers[i].Name], &servers[i])
	}
	return nil
}

// lockEntries are what the file holds of its servers, by name: no two have the same.
func lockEntries(doc *document) map[string]*hujson.Value {
	servers := member(&doc.root, "servers")
	if servers == nil {
		return nil
	}
	obj, ok := servers.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	byName := make(map[string]*hujson.Value, len(obj.Members))
	for i := range obj.Members {
		m := &obj.Members[i]
		byName[memberName(m)] = &m.Value
	}
	return byName
}

// lockedServer adds one server, which stands at m, unless a configured one has its name.
func (b *builder) lockedServer(l *provisioned.Lock, doc *document, m *hujson.Value, s *provisioned.Locked) {
	v := member(m, "entry")
	obj, ok := (*hujson.Object)(nil), false
	if v != nil {
		obj, ok = v.Value.(*hujson.Object)
	}
	if !ok {
		v = m
		if v == nil {
			v = &doc.root
		}
	}
	line := doc.line(v.StartOffset)
	if other := b.cfg.byName[s.Name]; other != nil {
		p := doc.problem(v, "the server of that name at "+other.Source+" is used, and not the one that metamcp installed", "rename or remove one of them")
		p.Server = s.Name
		b.warnings([]Problem{p})
		return
	}
	e := entry{
		doc: doc, name: s.Name, env: b.src.env, ex: b.ex, home: b.src.home,
		spec: &messages.ServerSpec{
			Name: s.Name, Source: doc.file + ":" + strconv.Itoa(line), Description: s.Description,
			Provisioned: &messages.Provisioned{Package: s.Source.String(), Dir: l.Dir(s), Tree: s.Tree},
		},
	}
	if ok {
		b.ex.used, b.ex.secrets.user = nil, s.Name
		e.read(v, obj)
		b.ex.secrets.user = ""
		e.spec.Filled = b.ex.used
	} else {
		// Go's own reader takes keys in capitals for ours.
		e.bad(doc, v, "remove the server and provision it again", "its entry is not written as metamcp writes it")
	}
	if len(e.problems) > 0 {
		e.fail(v)
		if ok {
			e.spec.Err.Hint = messages.HintSentence(e.problems[0].Hint + "; the server needs it")
		}
	}
	b.problems(e.problems)
	b.warnings(e.warnings)
	b.cfg.Servers = append(b.cfg.Servers, e.spec)
	b.cfg.byName[s.Name] = e.spec
}

// member returns the value of a name in an object; nil where there is none.
func member(v *hujson.Value, name string) *hujson.Value {
	if v == nil {
		return nil
	}
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	for i := range obj.Members {
		if m := &obj.Members[i]; memberName(m) == name {
			return &m.Value
		}
	}
	return nil
}
