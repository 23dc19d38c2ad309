package install

import (
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/trust"
)

// remote plans a server that runs elsewhere: there is nothing to install.
func (p *Plan) remote(server *registry.Server, address string, own bool) (*Plan, error) {
	for i := range server.Remotes {
		if r := &server.Remotes[i]; r.URL == address {
			return p, p.resolveRemote(r, own)
		}
	}
	return nil, fail(Invalid, "", "%s has no remote at %s", server.Name, shorten(address))
}

func (p *Plan) resolveRemote(r *registry.Transport, own bool) error {
	p.Name, p.Source.URL = suggestName(trust.Remote, r.URL), r.URL
	p.cannot("it runs elsewhere, and metamcp cannot speak with remote servers yet")
	in := inputReader{values: p.opts.Values, has: func(string) bool { return false }, own: own}
	e := Entry{Type: "http", Headers: map[string]string{}}
	if r.Type == "sse" {
		e.Type = "sse"
	}
	var failed error
	e.URL = placeholder.ReplaceAllStringFunc(literal(r.URL), func(match string) string {
		name := match[1 : len(match)-1]
		variable, known := r.Variables[name]
		if !known {
			return match
		}
		n := need(name, provisioned.InURL, &variable)
		value, ok, err := in.value(&n, &variable)
		switch {
		case err != nil:
			failed = err
		case ok:
			return value
		}
		return "${" + variableName(name) + "}"
	})
	for i := range r.Headers {
		h := &r.Headers[i]
		n := need(h.Name, provisioned.InHeaders, &h.Input)
		value, ok, err := in.value(&n, &h.Input)
		switch {
		case err != nil:
			failed = err
		case ok:
			e.Headers[h.Name] = value
		case n.Required:
			e.Headers[h.Name] = "${" + variableName(h.Name) + "}"
		}
	}
	if failed != nil {
		return failed
	}
	e.Headers = orNil(e.Headers)
	p.Entry, p.Needs, p.Missing = e, in.needs, in.missing
	return in.unknown()
}
