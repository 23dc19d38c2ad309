package install

import (
	"github.com/metamcp/metamcp/integration/registry"
)

// remote plans a server that runs elsewhere: there is nothing to install.
func (p *Plan) remote(server *registry.Server, address string) (*Plan, error) {
	for i := range server.Remotes {
		r := &server.Remotes[i]
		if r.URL != address {
			continue
		}
		return p, nil
	}
	return nil, fail(Invalid, "", "%s has no remote at %s", server.Name, address)
}
