package config

import (
	"path/filepath"

	"github.com/tailscale/hujson"

	"github.com/metamcp/metamcp/messages"
)

// tls reads the object of that name.
func (e *entry) tls(v *hujson.Value) {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		e.mismatch(e.doc, "tls", v, "an object")
		return
	}
	t := &messages.TLS{}
	e.spec.TLS = t
	for i := range obj.Members {
		m := &obj.Members[i]
		name := memberName(m)
		to, known := map[string]*string{"ca": &t.CA, "cert": &t.Cert, "key": &t.Key}[name]
		path := "tls." + shorten(name)
		if !known {
			e.warn(&m.Name, suggestion(name, []string{"ca", "cert", "key"}), "%s is not known and ignored", path)
			continue
		}
		text, ok := e.str(e.doc, path, &m.Value, e.ex)
		if !ok {
			continue
		}
		if *to = expandHome(text, e.home); !filepath.IsAbs(*to) {
			e.bad(e.doc, &m.Value, "write where it is from the root, or from ~/", "%s: expected the full path of a file", path)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		e.bad(e.doc, v, "a certificate and its key belong together", "tls: it has one of cert and key, without the other")
	}
}

func sameTLS(a, b *messages.TLS) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
