package oauth

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/messages"
)

// maxIssuers is how many authorization servers of one resource are tried.
const maxIssuers = 5

// resourceMetadata are those of RFC 9728.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// issuerMetadata are those of RFC 8414 and of OpenID Connect Discovery.
type issuerMetadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	SigningAlgs   []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	SaysIssuer    bool     `json:"authorization_response_iss_parameter_supported"`
	ByDocument    bool     `json:"client_id_metadata_document_supported"`

	// assumed: it has no metadata, and these are what servers of 2025-03-26 have.
	assumed bool
}

// place is who is in charge of an MCP server.
type place struct {
	resource string   // as tokens are asked for
	scopes   []string // that the resource names
	issuer   issuerMetadata
}

// discover finds out who is in charge. asked says that the server has refused
// with 401: without that, one that offers no metadata is not guessed at.
// preferred is an issuer that is known already; "": none.
func (w *web) discover(ctx context.Context, server *url.URL, o *messages.OAuth, c challenge, asked bool, preferred string) (*place, error) {
	wanted := ""
	if o != nil {
		wanted = o.Issuer
	}
	meta, err := w.resource(ctx, server, c)
	if err != nil {
		return nil, err
	}
	p := &place{resource: canonical(server)}
	if meta == nil {
		return p, w.withoutResource(ctx, p, server, wanted, asked)
	}
	p.resource, p.scopes = meta.Resource, cleanScopes(meta.Scopes)
	issuers := slices.Clone(meta.Servers)
	switch {
	case len(issuers) == 0:
		return nil, fail("the metadata of the server name no authorization server")
	case wanted != "" && !slices.Contains(issuers, wanted):
		e := fail("the server is under the authorization server %s, and oauth.issuer of its entry names another one", oneLine(issuers[0]))
		e.Advice = "If the server has moved, correct issuer, and the client that belongs to it, in the entry; otherwise do not use it."
		return nil, e
	case wanted != "":
		issuers = []string{wanted}
	case slices.Contains(issuers, preferred):
		issuers = append([]string{preferred}, issuers...)
	}
	var first error
	for _, name := range issuers[:min(len(issuers), maxIssuers)] {
		meta, err := w.issuer(ctx, name, name)
		switch {
		case err != nil && first == nil:
			first = err
		case err == nil && meta == nil && first == nil:
			first = fail("the authorization server %s has no metadata", oneLine(name))
		case err == nil && meta != nil:
			p.issuer = *meta
			return p, nil
		}
	}
	return nil, first
}

// withoutResource takes the authorization server for the server's own, as
// 2025-03-26 had it.
func (w *web) withoutResource(ctx context.Context, p *place, server *url.URL, wanted string, asked bool) error {
	origin := server.Scheme + "://" + server.Host
	at := []string{origin, origin + "/"}
	if wanted != "" {
		at = []string{wanted}
	}
	meta, err := w.issuer(ctx, at[0], at...)
	switch {
	case err != nil:
		return err
	case meta != nil:
		p.issuer = *meta
		return nil
	case wanted != "":
		return fail("the authorization server %s, which oauth.issuer names, has no metadata", wanted)
	case !asked:
		e := fail("the server answers without a login, and says of none")
		e.Advice, e.nothing = "Where it wants a token all the same, put it into the entry's headers.", true
		return e
	}
	p.issuer = issuerMetadata{
		Issuer: origin, Authorization: origin + "/authorize", Token: origin + "/token", Registration: origin + "/register", assumed: true,
	}
	return nil
}

// resource reads the metadata of the MCP server; nil: it has none.
func (w *web) resource(ctx context.Context, server *url.URL, c challenge) (*resourceMetadata, error) {
	const known = "/.well-known/oauth-protected-resource"
	origin := server.Scheme + "://" + server.Host
	at := []string{origin + known}
	if path := strings.TrimRight(server.EscapedPath(), "/"); path != "" {
		at = []string{origin + known + path, origin + known}
	}
	if c.Metadata != "" {
		at = []string{c.Metadata}
	}
	for _, address := range at {
		var meta resourceMetadata
		err := w.document(ctx, address, &meta)
		if errors.Is(err, errNotThere) && c.Metadata == "" {
			continue
		}
		if err != nil {
			return nil, unreachable("the metadata of the server cannot be read from "+shown(address), err)
		}
		if !covers(meta.Resource, server) {
			return nil, fail("its metadata are those of another server, %s", oneLine(meta.Resource))
		}
		return &meta, nil
	}
	return nil, nil
}

// shown is an address that somebody else wrote, for people.
func shown(address string) string {
	if u, err := url.Parse(address); err == nil {
		return oneLine(bare(u))
	}
	return "the address that it names"
}

// covers says whether a resource is the server, or a part of its origin in
// which the server is.
func covers(resource string, server *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Fragment != "" || r.User != nil || !strings.EqualFold(r.Scheme, server.Scheme) || !strings.EqualFold(hostPort(r), hostPort(server)) {
		return false
	}
	if r.RawQuery != "" && r.RawQuery != server.RawQuery {
		return false
	}
	above, path := strings.TrimRight(r.EscapedPath(), "/"), strings.TrimRight(server.EscapedPath(), "/")
	return path == above || strings.HasPrefix(path, above+"/")
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return u.Hostname() + ":" + port
}

// canonical is a server's name as a resource: RFC 8707 leaves the query out,
// which may be a key.
func canonical(server *url.URL) string {
	return strings.ToLower(server.Scheme) + "://" + strings.ToLower(server.Host) + strings.TrimSuffix(server.EscapedPath(), "/")
}

// issuer reads the metadata of an authorization server, whose issuer must be
// one of the names; nil: it has none.
func (w *web) issuer(ctx context.Context, at string, names ...string) (*issuerMetadata, error) {
	u, err := w.address(at)
	if err != nil {
		return nil, unreachable("the authorization server cannot be asked", err)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fail("the name of the authorization server, %s, has a query or a fragment", oneLine(bare(u)))
	}
	const rfc8414, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	origin, path := u.Scheme+"://"+u.Host, strings.TrimRight(u.EscapedPath(), "/")
	candidates := []string{origin + rfc8414 + path, origin + openID + path}
	if path != "" {
		candidates = append(candidates, origin+path+openID)
	}
	var wrong error
	for _, address := range candidates {
		var meta issuerMetadata
		err := w.document(ctx, address, &meta)
		switch {
		case errors.Is(err, errNotThere):
		case err != nil:
			return nil, unreachable("the metadata of the authorization server cannot be read from "+shown(address), err)
		case !slices.Contains(names, meta.Issuer):
			wrong = fail("the metadata at %s are not those of the authorization server %s: they say that they are of %q", shown(address), oneLine(at), oneLine(meta.Issuer))
		default:
			return &meta, w.endpoints(&meta)
		}
	}
	return nil, wrong
}

// endpoints checks the addresses of an authorization server.
func (w *web) endpoints(meta *issuerMetadata) error {
	for name, address := range map[string]string{
		"authorization": meta.Authorization, "token": meta.Token, "registration": meta.Registration, "revocation": meta.Revocation,
	} {
		if address == "" {
			continue
		}
		u, err := w.address(address)
		if err == nil && u.Fragment != "" {
			err = errors.New("it has a fragment")
		}
		if err != nil {
			return fail("the %s endpoint of the authorization server %s cannot be used: %v", name, oneLine(meta.Issuer), err)
		}
	}
	if meta.Token == "" {
		return fail("the authorization server %s has no token endpoint", oneLine(meta.Issuer))
	}
	return nil
}
