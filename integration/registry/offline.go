package registry

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
)

//go:embed builtin.json
var builtinFile []byte

// builtinServers reads the list once; TestBuiltin holds the file to its shape.
var builtinServers = sync.OnceValues(func() ([]Server, error) { return readBuiltin(builtinFile) })

func readBuiltin(data []byte) ([]Server, error) {
	var list []struct {
		Server
		Status  Status `json:"status"`
		Message string `json:"statusMessage"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	servers := make([]Server, 0, len(list))
	for i := range list {
		s := list[i].Server
		s.Status, s.StatusMessage, s.Latest = list[i].Status, list[i].Message, true
		if s.Status == "" {
			s.Status = Active
		}
		s.clean()
		servers = append(servers, s)
	}
	return servers, nil
}

// Builtin returns the 20 well-known servers that metamcp knows without asking
// anybody. Their names are those of their packages, and they have no version:
// whoever installs one looks up which is newest.
func Builtin() []Server {
	servers, err := builtinServers()
	if err != nil {
		return nil // TestBuiltin would have failed
	}
	return append([]Server(nil), servers...)
}

// offline answers without the registry: from all that it said before, else from
// the built-in list and the gallery.
func (c *Client) offline(q *Query, a *Answer) *Answer {
	known, age := c.cache.all(c.base, c.opts.Now())
	if found := matching(known, q); len(found) > 0 {
		a.Servers, a.Source, a.Age = found, FromCache, age
		a.Notes = append(a.Notes, fmt.Sprintf("the registry gave no answer (%s); these are the servers it told of before that fit, up to %s ago", a.Cause.Message, roughly(age)))
		return a
	}
	searched, where := c.builtin()
	a.Servers, a.Source, a.Age = matching(searched, q), FromBuiltin, 0
	why := "nothing that fits was kept from before"
	if len(known) == 0 {
		why = "nothing was kept from before"
	}
	a.Notes = append(a.Notes, fmt.Sprintf("the registry gave no answer (%s) and %s; %s searched instead", a.Cause.Message, why, where))
	return a
}

// builtin are the servers that are known without a registry, each package once; where
// says which lists they are, and that these were.
func (c *Client) builtin() (servers []Server, where string) {
	servers = Builtin()
	where = fmt.Sprintf("the built-in list of %d servers", len(servers))
	if len(c.opts.Gallery) == 0 {
		return servers, where + " was"
	}
	seen := map[string]bool{}
	for i := range servers {
		seen[wayOf(&servers[i])] = true
	}
	for i := range c.opts.Gallery {
		if s := &c.opts.Gallery[i]; !seen[wayOf(s)] {
			servers = append(servers, *s)
		}
	}
	return servers, where + fmt.Sprintf(" and the gallery of %d (short names; metamcp add NAME adds one) were", len(c.opts.Gallery))
}

// wayOf tells the packages of servers apart that are known without a registry, which
// have one each.
func wayOf(s *Server) string {
	if len(s.Packages) == 0 {
		return s.Name
	}
	return string(s.Packages[0].Kind) + ":" + s.Packages[0].Identifier
}

// matching returns the servers that have all words of the search in what they
// say of themselves, those with the words in their name first, but what is
// deprecated behind all others; each name once unless all versions are wanted.
func matching(servers []Server, q *Query) []Server {
	words := strings.Fields(strings.ToLower(q.Search))
	var named, other []Server
	seen := map[string]bool{}
	for i := range servers {
		s := &servers[i]
		key := s.Name
		if q.AllVersions {
			key += "\n" + s.Version
		}
		switch {
		case seen[key], s.Status == Deleted && !q.IncludeDeleted, !q.AllVersions && !s.Latest,
			!q.UpdatedSince.IsZero() && s.UpdatedAt.Before(q.UpdatedSince):
			continue
		}
		names := strings.ToLower(s.Name)
		for j := range s.Packages {
			names += "\n" + strings.ToLower(s.Packages[j].Identifier)
		}
		switch {
		case hasAll(names, words):
			named = append(named, *s)
		case hasAll(names+"\n"+strings.ToLower(s.Title+"\n"+s.Description), words):
			other = append(other, *s)
		default:
			continue
		}
		seen[key] = true
	}
	byName := func(list []Server) {
		sort.SliceStable(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	}
	byName(named)
	byName(other)
	found := append(named, other...)
	SortDeprecated(found)
	return found[:min(len(found), q.Limit)]
}

// SortDeprecated puts what is deprecated or deleted behind all others, else the order
// stays.
func SortDeprecated(servers []Server) {
	last := func(s *Server) bool { return s.Status == Deprecated || s.Status == Deleted }
	sort.SliceStable(servers, func(i, j int) bool { return !last(&servers[i]) && last(&servers[j]) })
}

func hasAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
