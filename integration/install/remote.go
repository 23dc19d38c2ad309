package install

import (
	"context"
	"net/url"

	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/trust"
)

// remoteWay is a server that runs elsewhere: nothing is installed but its entry.
type remoteWay struct{ entry Entry }

func (w *remoteWay) install(context.Context, *Plan, *provisioned.Claim) (*started, error) {
	return &started{entry: w.entry, complete: true}, nil
}

// remote plans a server that runs elsewhere.
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
	in := inputReader{values: p.opts.Values, has: func(string) bool { return false }, own: own}
	e := Entry{Type: "http", Headers: map[string]string{}}
	if r.Type == "sse" {
		e.Type = "sse"
	}
	var failed error
	e.URL = fill(r.URL, func(name string) (string, bool) {
		variable, known := r.Variables[name]
		if !known {
			return "", false
		}
		n := in.need(name, provisioned.InURL, &variable)
		n.Required = true // an address cannot do without it
		value, ok, err := in.value(&n, &variable)
		switch {
		case err != nil:
			failed = err
		case ok:
			return value, true
		}
		return in.lacking(&n, &variable), true
	})
	for i := range r.Headers {
		h := &r.Headers[i]
		n := in.need(h.Name, provisioned.InHeaders, &h.Input)
		value, ok, err := in.value(&n, &h.Input)
		switch {
		case err != nil:
			failed = err
		case ok:
			e.Headers[h.Name] = value
		case n.Required:
			e.Headers[h.Name] = in.lacking(&n, &h.Input)
		}
	}
	if failed != nil {
		return failed
	}
	// Whoever describes a server must not send what it is given in the clear, or
	// to this machine.
	u, err := url.Parse(reference().ReplaceAllString(e.URL, "x"))
	if err == nil {
		err = publicNetwork().check(u)
	}
	if err != nil {
		p.cannot(NotSupported, "its address cannot be used: "+err.Error())
	}
	e.Headers = orNil(e.Headers)
	p.Entry, p.Needs, p.Missing = e, in.needs, in.missing
	p.way = &remoteWay{e}
	p.note("it runs elsewhere: nothing is installed here, and nobody can tell when it changes")
	return in.unknown()
}
