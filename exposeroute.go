package metamcp

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/messages"
)

// ownScheme begins the URIs that say whose resource they name: what follows the
// server is the server's own URI, or template, as it is.
const ownScheme = "metamcp://"

func ownURI(server, uri string) string { return ownScheme + url.PathEscape(server) + "/" + uri }

// ownedBy reads an URI of ours.
func ownedBy(uri string) (topic actors.Topic, ok bool) {
	rest, ok := strings.CutPrefix(uri, ownScheme)
	if !ok {
		return topic, false
	}
	server, uri, ok := strings.Cut(rest, "/")
	if !ok || uri == "" {
		return topic, false
	}
	name, err := url.PathUnescape(server)
	return actors.Topic{Server: name, URI: uri}, err == nil && name != ""
}

// route finds the server of a resource: the one that an URI of ours names, the
// only one that lists it, the only one whose results named it in this session, the only
// one with a template for it, or the only one that has resources at all.
func (p *passed) route(uri string) (actors.Topic, *Error) {
	return p.routeBy(uri, func(m *mergedList) []string { return m.matching(uri) })
}

// routeTemplate is route for what may be a template.
func (p *passed) routeTemplate(uri string) (actors.Topic, *Error) {
	return p.routeBy(uri, func(m *mergedList) []string {
		if owners := m.owners[uri]; len(owners) > 0 {
			return owners
		}
		return m.matching(uri)
	})
}

func (p *passed) routeBy(uri string, byTemplate func(m *mergedList) []string) (actors.Topic, *Error) {
	if uri == "" {
		return actors.Topic{}, &Error{Code: messages.CodeValidation, Message: "uri: the URI of a resource is required, a string", Hint: "resources/list and the links in results have such URIs."}
	}
	if topic, ok := ownedBy(uri); ok {
		if _, ok := p.x.e.core.Directory().Lookup(topic.Server); !ok {
			return topic, p.x.e.core.ServerNotFound(topic.Server)
		}
		return topic, nil
	}
	if kept := p.x.lists.kept(listResources); kept != nil {
		if owners := p.there(kept.owners[uri]); len(owners) == 1 && !p.x.lists.stale(owners[0], listResources) {
			return actors.Topic{Server: owners[0], URI: uri}, nil
		}
	}
	p.mu.Lock()
	named := p.links.of(uri)
	p.mu.Unlock()
	switch named = p.there(named); len(named) {
	case 0:
	case 1:
		return actors.Topic{Server: named[0], URI: uri}, nil
	default:
		return actors.Topic{}, severalHave(uri, named)
	}
	wait, cancel := p.x.patient(p.ctx)
	defer cancel()
	resources := p.x.lists.all(wait, listResources)
	owners := p.there(resources.owners[uri])
	if len(owners) == 0 {
		owners = p.there(byTemplate(p.x.lists.all(wait, listTemplates)))
	}
	if only := strings.Split(resources.servers, "\x00"); len(owners) == 0 && len(only) == 1 && only[0] != "" {
		owners = p.there(only)
	}
	switch len(owners) {
	case 1:
		return actors.Topic{Server: owners[0], URI: uri}, nil
	case 0:
		return actors.Topic{}, unlessLate(&Error{
			Code: messages.CodeResourceNotFound, Message: "no server lists the resource " + strconv.Quote(short(uri)) + " or has a template for it, and no result named it",
			Hint: "Name its server: " + ownScheme + "SERVER/ and then the URI.",
		}, p.x.late(listResources, listTemplates))
	}
	return actors.Topic{}, severalHave(uri, owners)
}

func severalHave(uri string, owners []string) *Error {
	own := make([]string, len(owners))
	for i, o := range owners {
		own[i] = short(ownURI(o, uri))
	}
	return &Error{
		Code: messages.CodeResourceNotFound, Message: "several servers have the resource " + strconv.Quote(short(uri)) + ": " + strings.Join(owners, ", "),
		Hint: "Name the one that is meant: " + ownScheme + "SERVER/ and then the URI.", Details: own,
	}
}

// there leaves of servers those that are configured.
func (p *passed) there(servers []string) (left []string) {
	for _, s := range servers {
		if _, ok := p.x.e.core.Directory().Lookup(s); ok {
			left = append(left, s)
		}
	}
	return left
}

// matching are the servers with a template for an URI.
func (m *mergedList) matching(uri string) (servers []string) {
	if len(uri) > maxMatched {
		return nil
	}
	server, left := "", 0
	for _, t := range m.templates { // those of a server stand together
		if t.server != server {
			server, left = t.server, maxMatching
		}
		if t.match == nil || left <= 0 || slices.Contains(servers, server) {
			continue
		}
		left -= len(uri) * (t.names + 1) * (t.names + 1)
		if t.match.Match(uri) != nil {
			servers = append(servers, server)
		}
	}
	return servers
}
