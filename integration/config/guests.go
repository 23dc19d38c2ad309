package config

import (
	"errors"

	"github.com/tailscale/hujson"
)

// Guest is a server that stands in no file of ours.
type Guest struct {
	// From says where it is from; it stands where others have their file.
	From string
	// Text is a configuration with servers, as a file has them; settings in it
	// do not count.
	Text []byte
}

// guests adds the servers that no file has, nor the lock file.
func (b *builder) guests() {
	for _, g := range b.src.guests {
		doc, err := parseDocument(g.From, g.Text)
		if err != nil {
			p := Problem{File: g.From, Message: err.Error()}
			var s *syntaxError
			if errors.As(err, &s) {
				p.Message, p.Hint = s.message, s.hint
			}
			b.problems([]Problem{p})
			continue
		}
		servers := member(&doc.root, topNames[0])
		if servers == nil {
			continue
		}
		obj, ok := servers.Value.(*hujson.Object)
		if !ok {
			continue
		}
		for i := range obj.Members {
			m := &obj.Members[i]
			if name := memberName(m); b.cfg.byName[name] == nil && b.nameable(doc, m) {
				b.server(doc, name, m)
				if spec := b.cfg.byName[name]; spec != nil {
					spec.Guest = true
				}
			}
		}
	}
}
