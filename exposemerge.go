package metamcp

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/yosida95/uritemplate/v3"

	"github.com/metamcp/metamcp/index"
)

// mergedList is a list of all servers together. It never changes.
type mergedList struct {
	stamp   uint64
	servers string // whose
	named   *namedSet
	// owners are the servers that have a key.
	owners map[string][]string
	// templates are matched against URIs that no list has.
	templates []ownedTemplate
}

type ownedTemplate struct {
	server string
	match  *uritemplate.Template // nil: it is not understood, or too much
	names  int                   // how many variables it has
}

// templateNames is how many variables a template has; below 0: it is not to be
// matched. The library makes instructions of each character that a prefix ({x:9})
// allows, and takes all variables along with each byte that it looks at.
func templateNames(text string) int {
	if len(text) > maxTemplate {
		return -1
	}
	names, prefixes := 0, 0
	_, rest, _ := strings.Cut(text, "{")
	for part := range strings.SplitSeq(rest, "{") {
		expression, _, closed := strings.Cut(part, "}")
		if !closed {
			continue
		}
		for name := range strings.SplitSeq(expression, ",") {
			names++
			if _, prefix, ok := strings.Cut(name, ":"); ok {
				n, err := strconv.Atoi(prefix)
				if err != nil || n < 0 || n > maxPrefix {
					return -1
				}
				prefixes += n
			}
		}
	}
	if names > maxTemplateNames || prefixes > maxPrefix {
		return -1
	}
	return names
}

// all reads a list of all servers that have it, waiting until ctx ends.
func (l *childLists) all(ctx context.Context, kind listKind) *mergedList {
	l.x.meet(ctx, func(known *index.ServerEntry) bool { return known == nil || !known.Toolset.Offers.Known() })
	parts, servers := l.offering(kind)
	l.mu.Lock()
	l.forget()
	l.mu.Unlock()
	var readers sync.WaitGroup
	for _, p := range parts {
		readers.Go(func() { l.refresh(ctx, p.server, p.hash, kind) })
	}
	readers.Wait()
	l.mu.Lock()
	merged, stamp := l.merged[kind], l.stamp
	if merged != nil && merged.stamp == stamp && merged.servers == servers {
		l.mu.Unlock()
		return merged
	}
	items := make([][]listItem, len(parts)) // all of one moment, that of the stamp
	for i, p := range parts {
		if c := l.lists[listKey{p.server, kind}]; c != nil {
			items[i] = c.items
		}
	}
	l.mu.Unlock()
	merged = l.x.merge(kind, parts, items)
	merged.stamp, merged.servers = stamp, servers
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.merged[kind] == nil {
		l.told[kind] = servers
		l.x.poke() // a server that came since they were counted found nothing that clients know of
	}
	l.merged[kind] = merged
	return merged
}

// offer is a server that has a list.
type offer struct{ server, hash string }

// offering are the servers that have a list, by name, and a text that is the
// same for the same ones.
func (l *childLists) offering(kind listKind) (parts []offer, servers string) {
	dir, cat := l.x.e.core.Directory(), l.x.e.core.Catalog()
	for _, name := range dir.Names() {
		entry, ok := dir.Lookup(name)
		known := cat.Server(name)
		if !ok || entry.Spec().Disabled || known == nil || !known.Toolset.Offers.Has(listKinds[kind].offer) {
			continue
		}
		parts = append(parts, offer{name, entry.Spec().Hash})
	}
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.server
	}
	return parts, strings.Join(names, "\x00")
}

// kept is what was merged last; nil: nothing, or a list is another one since.
func (l *childLists) kept(kind listKind) *mergedList {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.merged[kind]
	if m == nil || m.stamp != l.stamp {
		return nil
	}
	return m
}

// stale says whether a server has announced another list than the one that was read.
// Nobody else's is asked about, so that a server that announces all the time, and is
// slow to list, holds up nothing that is another's.
func (l *childLists) stale(server string, kind listKind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.lists[listKey{server, kind}]
	return c == nil || c.stale || c.reading != nil && c.again
}

// merge puts the lists of servers together, by the names that clients see.
func (x *exposure) merge(kind listKind, servers []offer, items [][]listItem) *mergedList {
	m := &mergedList{owners: map[string][]string{}}
	var things []thing
	for i, list := range items {
		read := 0 // of its templates, in bytes
		for _, it := range list {
			m.owners[it.key] = append(m.owners[it.key], servers[i].server)
			things = append(things, thing{server: servers[i].server, name: it.key, raw: it.raw})
			if kind == listTemplates {
				t := ownedTemplate{server: servers[i].server, names: templateNames(it.key)}
				if t.names >= 0 && read+len(it.key) <= maxTemplates {
					read += len(it.key)
					t.match, _ = uritemplate.New(it.key) // nil where it is none
				}
				m.templates = append(m.templates, t)
			}
		}
	}
	if kind == listPrompts {
		m.named = x.names.name("prompt", things)
		return m
	}
	m.named = &namedSet{key: listKinds[kind].key, names: &x.names}
	for _, t := range things {
		as := t.name
		if len(m.owners[t.name]) > 1 {
			as = ownURI(t.server, t.name)
		}
		m.named.list = append(m.named.list, exposed{thing: t, as: as})
	}
	slices.SortFunc(m.named.list, func(a, b exposed) int { return cmp.Compare(a.as, b.as) })
	return m
}
