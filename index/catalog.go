package index

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/metamcp/metamcp/messages"
)

// pageSize is how many servers a page of the catalog holds at most. An update
// copies one page and the list of pages: at 10,000 servers some 3 KB, whatever
// number of tools there are.
const pageSize = 128

// A Catalog is an immutable snapshot of every server's tools. Updates return
// a new snapshot that shares all that did not change; the owner keeps the
// newest one, usually behind an atomic pointer. All methods are safe for any
// goroutine, on a nil catalog too, which is empty.
//
// It is a sorted list of sorted pages rather than a map: a look-up is two
// binary searches, walking it needs no sorting, and an update costs the square
// root of the number of servers rather than all of it.
type Catalog struct {
	pages   [][]*ServerEntry // none empty; sorted by server name throughout
	servers int
	tools   int
	rules   *Rules

	// searchable is made of the pages when somebody searches first.
	searchable sync.Once
	space      *space
	// latest is the space that was made last of any of the catalogs that come from
	// one: mostly it fits the next one.
	latest *atomic.Pointer[space]

	// held is looked for in the pages when somebody asks first.
	holding sync.Once
	held    []*ServerEntry
}

// Labels are what is said of a server beside its listing: by the
// configuration, and by who compared the listing with what was accepted.
type Labels struct {
	// Tags go to each of its tools.
	Tags        []string
	Description string
	// Disabled says that the server is not used: none of its tools may be
	// found, listed or called.
	Disabled bool
	Review   *messages.Review // nil: nobody compared
}

// same reports whether two labels say the same but for their reviews.
func (l Labels) same(other Labels) bool {
	return l.Description == other.Description && l.Disabled == other.Disabled && slices.Equal(l.Tags, other.Tags)
}

// With returns a catalog in which ts is what its server has, in place of
// whatever it had. Entries of tools whose definition did not change keep their
// validator and their vector. ts and labels must not change afterwards.
func (c *Catalog) With(ts *messages.Toolset, labels Labels) *Catalog {
	return c.with(ts, labels, nil)
}

// with is With; like, which may be nil, is a server whose tools are the same: what is
// worked out of their definitions is held once for both.
func (c *Catalog) with(ts *messages.Toolset, labels Labels, like *ServerEntry) *Catalog {
	page, at, found := c.locate(ts.Server)
	var old *ServerEntry
	if found {
		old = c.pages[page][at]
	}
	fresh := newServerEntry(ts, labels, c.ruleset(), old, like)
	next := &Catalog{servers: c.Servers(), tools: c.Tools() + len(fresh.Entries), rules: c.ruleset(), latest: c.spaces()}
	if found {
		next.tools -= len(old.Entries)
		changed := slices.Clone(c.pages[page])
		changed[at] = fresh
		next.pages = slices.Clone(c.pages)
		next.pages[page] = changed
		return next
	}
	next.servers++
	if next.servers == 1 {
		next.pages = [][]*ServerEntry{{fresh}}
		return next
	}
	changed := make([]*ServerEntry, 0, len(c.pages[page])+1)
	changed = append(changed, c.pages[page][:at]...)
	changed = append(changed, fresh)
	changed = append(changed, c.pages[page][at:]...)
	if len(changed) <= pageSize {
		next.pages = slices.Clone(c.pages)
		next.pages[page] = changed
		return next
	}
	half := len(changed) / 2
	next.pages = make([][]*ServerEntry, 0, len(c.pages)+1)
	next.pages = append(next.pages, c.pages[:page]...)
	next.pages = append(next.pages, changed[:half:half], changed[half:])
	next.pages = append(next.pages, c.pages[page+1:]...)
	return next
}

// Without returns a catalog that does not know the server; the same catalog
// where it never did.
func (c *Catalog) Without(server string) *Catalog {
	page, at, found := c.locate(server)
	if !found {
		return c
	}
	next := &Catalog{servers: c.servers - 1, tools: c.tools - len(c.pages[page][at].Entries), rules: c.rules, latest: c.spaces()}
	if len(c.pages[page]) == 1 {
		next.pages = slices.Concat(c.pages[:page], c.pages[page+1:])
		return next
	}
	next.pages = slices.Clone(c.pages)
	next.pages[page] = slices.Concat(c.pages[page][:at], c.pages[page][at+1:])
	return next
}

// Ruled returns a catalog in which rules decide which tools are enabled and
// which tags they carry, those of servers that come later included.
func (c *Catalog) Ruled(rules *Rules) *Catalog {
	next := &Catalog{servers: c.Servers(), tools: c.Tools(), rules: rules, latest: c.spaces()}
	if c == nil {
		return next
	}
	next.pages = make([][]*ServerEntry, 0, len(c.pages))
	for _, page := range c.pages {
		fresh := make([]*ServerEntry, 0, len(page))
		for _, s := range page {
			fresh = append(fresh, newServerEntry(s.Toolset, s.labels, rules, s, nil))
		}
		next.pages = append(next.pages, fresh)
	}
	return next
}

// Allows says whether the rules leave a tool open, also one that is not in the catalog.
func (c *Catalog) Allows(server, tool string) bool {
	enabled, _ := c.ruleset().Decide(server, tool, nil)
	return enabled
}

func (c *Catalog) ruleset() *Rules {
	if c == nil {
		return nil
	}
	return c.rules
}

// spaces is where this catalog and those that come from it leave their spaces.
func (c *Catalog) spaces() *atomic.Pointer[space] {
	if c == nil || c.latest == nil {
		return new(atomic.Pointer[space])
	}
	return c.latest
}

// locate returns where the server is, or where it would be inserted.
func (c *Catalog) locate(server string) (page, at int, found bool) {
	if c == nil || len(c.pages) == 0 {
		return 0, 0, false
	}
	// The last page whose first server is not after the one sought.
	page, found = slices.BinarySearchFunc(c.pages, server, func(p []*ServerEntry, s string) int {
		return cmp.Compare(p[0].Toolset.Server, s)
	})
	if found {
		return page, 0, true
	}
	page = max(page-1, 0)
	at, found = slices.BinarySearchFunc(c.pages[page], server, func(e *ServerEntry, s string) int {
		return strings.Compare(e.Toolset.Server, s)
	})
	return page, at, found
}

// Server returns what is known of the server, or nil.
func (c *Catalog) Server(name string) *ServerEntry {
	page, at, found := c.locate(name)
	if !found {
		return nil
	}
	return c.pages[page][at]
}

// All walks the servers by name; each one's Entries are in the child's order.
func (c *Catalog) All() iter.Seq[*ServerEntry] {
	return func(yield func(*ServerEntry) bool) {
		if c == nil {
			return
		}
		for _, page := range c.pages {
			for _, s := range page {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// Held returns the servers with tools that are held back, by name. They are looked
// for once, since hardly any catalog has one and every search asks.
func (c *Catalog) Held() []*ServerEntry {
	if c == nil {
		return nil
	}
	c.holding.Do(func() {
		for s := range c.All() {
			if s.holds() {
				c.held = append(c.held, s)
			}
		}
	})
	return c.held
}

// Servers is the number of servers.
func (c *Catalog) Servers() int {
	if c == nil {
		return 0
	}
	return c.servers
}

// Tools is the number of tools of all servers, disabled ones included.
func (c *Catalog) Tools() int {
	if c == nil {
		return 0
	}
	return c.tools
}

// toolsOf is how many tools one server has, disabled ones too.
func (c *Catalog) toolsOf(server string) int {
	if s := c.Server(server); s != nil {
		return len(s.Entries)
	}
	return 0
}
