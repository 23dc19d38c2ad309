package metamcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/yosida95/uritemplate/v3"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// Bounds of what is kept of one list of a server, and of all.
const (
	maxListPages  = 10_000
	maxListItems  = 200_000
	maxListBytes  = 64 << 20
	maxListsBytes = 256 << 20
	// maxItemKey is the longest URI or name of an item in a list; those that are
	// longer are left out, but can be read.
	maxItemKey = 64 << 10
	// listPatience is how long the reading of one list may take in all.
	listPatience = 2 * time.Minute
	// lastPause is the longest distance between two readings of a list that
	// changes all the time.
	lastPause = time.Minute
	// maxTemplate is the longest template that is matched, in bytes.
	maxTemplate = 4 << 10
)

// listKind is one of the lists that servers have beside that of their tools.
type listKind uint8

const (
	listResources listKind = iota
	listTemplates
	listPrompts
)

// listKinds are what the protocol calls things.
var listKinds = [...]struct {
	method, member, key string
	offer               messages.Offers
	notice              string
}{
	listResources: {"resources/list", "resources", "uri", messages.OffersResources, mcp.MethodNotificationResourcesListChanged},
	listTemplates: {"resources/templates/list", "resourceTemplates", "uriTemplate", messages.OffersResources, mcp.MethodNotificationResourcesListChanged},
	listPrompts:   {"prompts/list", "prompts", "name", messages.OffersPrompts, mcp.MethodNotificationPromptsListChanged},
}

type listKey struct {
	server string
	kind   listKind
}

// childLists keeps what servers list, and reads it from them when it is needed.
type childLists struct {
	x *exposure

	mu     sync.Mutex
	lists  map[listKey]*childList
	bytes  int    // of all
	stamp  uint64 // counts changes of what is kept
	merged [len(listKinds)]*mergedList
	told   [len(listKinds)]string // of whose lists clients know
}

// childList is one list of one server.
type childList struct {
	hash    string // of the server's configuration
	items   []listItem
	bytes   int
	print   uint64
	told    uint64 // the print that clients know of
	read    bool
	missed  bool // clients got a list without it, since it was not read in time
	stale   bool
	err     *Error        // of the last reading
	reading chan struct{} // closed when the reading under way is over; nil: none
	again   bool          // it changed during that

	pause time.Duration
	due   time.Time // for the next reading of a list that changed
}

// listItem is one item, in the server's own bytes.
type listItem struct {
	key string
	raw json.RawMessage
}

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
	match  *uritemplate.Template // nil: it is not understood
}

func newChildLists(x *exposure) *childLists {
	return &childLists{x: x, lists: map[listKey]*childList{}}
}

var listSeed = maphash.MakeSeed()

// get returns what a server lists, read anew where nothing is known or it may
// have changed. Where ctx ends first it returns what was known before.
func (l *childLists) get(ctx context.Context, server, hash string, kind listKind) []listItem {
	key := listKey{server, kind}
	l.mu.Lock()
	c := l.of(key, hash)
	if c.read && !c.stale && c.err == nil {
		defer l.mu.Unlock()
		return c.items
	}
	reading := l.begin(key, c)
	l.mu.Unlock()
	select {
	case <-reading:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.missed = c.missed || !c.read
	return c.items
}

// forget drops the lists of servers that are gone. l.mu is held.
func (l *childLists) forget() {
	for key, c := range l.lists {
		if _, ok := l.x.e.core.Directory().Lookup(key.server); !ok {
			l.bytes -= c.bytes
			delete(l.lists, key)
			l.stamp++
		}
	}
}

// of is the list with this key, of a server with this configuration.
func (l *childLists) of(key listKey, hash string) *childList {
	c := l.lists[key]
	if c == nil || c.hash != hash {
		if c != nil {
			l.bytes -= c.bytes
			l.stamp++
		}
		c = &childList{hash: hash}
		l.lists[key] = c
	}
	return c
}

// begin begins a reading where none is under way. l.mu is held.
func (l *childLists) begin(key listKey, c *childList) <-chan struct{} {
	if c.reading != nil {
		return c.reading
	}
	done := make(chan struct{})
	c.reading, c.again = done, false
	l.x.work.Go(func() {
		items, size, err := l.read(key)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.keep(key, c, items, size, err)
		c.reading = nil
		close(done)
	})
	return done
}

// keep takes over what was read. l.mu is held.
func (l *childLists) keep(key listKey, c *childList, items []listItem, size int, err *Error) {
	if l.lists[key] != c {
		return // of another configuration
	}
	if err == nil && l.bytes-c.bytes+size > maxListsBytes {
		err = &Error{Message: fmt.Sprintf("the lists of all servers together have more than %d MiB", maxListsBytes>>20)}
	}
	first := !c.read
	c.stale, c.err, c.read = c.again, err, true
	if err != nil {
		l.x.e.log.Warn("a list of a server is not shown to clients, or as it was before", "server", key.server, "list", listKinds[key.kind].member, "why", l.x.e.scrubbed(err).Message)
		return
	}
	var h maphash.Hash
	h.SetSeed(listSeed)
	for _, it := range items {
		_, _ = h.Write(it.raw)
		_ = h.WriteByte(0)
	}
	if now := h.Sum64(); now != c.print || len(items) != len(c.items) {
		l.bytes += size - c.bytes
		c.items, c.bytes, c.print = items, size, now
		l.stamp++
	}
	if first && !c.missed {
		c.told = c.print
	}
	if c.told != c.print || c.stale {
		l.x.poke()
	}
}

// read reads all pages of a list.
func (l *childLists) read(key listKey) (items []listItem, size int, failure *Error) {
	kind := &listKinds[key.kind]
	ctx, cancel := context.WithTimeout(l.x.ctx, listPatience)
	defer cancel()
	seen, cursors := map[string]bool{}, map[string]bool{}
	left := 0
	params := json.RawMessage(nil)
	truncated := ""
	for pages := 1; ; pages++ {
		result, err := l.x.e.askServer(ctx, key.server, kind.method, params)
		if err != nil {
			return nil, 0, err
		}
		scan := jsonrpc.Elements(jsonrpc.Get(result, kind.member), func(el []byte) error {
			name := stringOf(el, kind.key)
			switch {
			case name == "" || len(name) > maxItemKey || seen[name]:
				left++
				return nil
			case len(items) >= maxListItems || size+len(el) > maxListBytes:
				return errListFull
			}
			seen[name] = true
			// A copy: the page is as large as all its items.
			items = append(items, listItem{name, slices.Clone(el)})
			size += len(el) + len(name)
			return nil
		})
		next, err2 := jsonrpc.Unquote(jsonrpc.Get(result, "nextCursor"))
		switch {
		case errors.Is(scan, errListFull):
			truncated = fmt.Sprintf("more than %d items or %d MiB", maxListItems, maxListBytes>>20)
		case scan != nil:
			return nil, 0, &Error{Code: messages.CodeConnection, Server: key.server, Message: "its answer to " + kind.method + " has no list: " + scan.Error()}
		case err2 != nil: // no further page
		case cursors[next]:
			truncated = "a cursor came twice"
		case pages >= maxListPages:
			truncated = fmt.Sprintf("more than %d pages", maxListPages)
		default:
			cursors[next] = true
			params = append(jsonrpc.AppendQuote([]byte(`{"cursor":`), next), '}')
			continue
		}
		break
	}
	if truncated != "" || left > 0 {
		l.x.e.log.Warn("a list of a server is not taken whole", "server", key.server, "list", kind.member, "ended", truncated, "leftOut", left)
	}
	slices.SortFunc(items, func(a, b listItem) int { return cmp.Compare(a.key, b.key) })
	return items, size, nil
}

var errListFull = errors.New("the list is full")

// askServer runs one request of the host's own at a server.
func (e *Engine) askServer(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, *Error) {
	id := front.NextCall()
	port := make(answerPort, 1)
	call := &messages.Call{Meta: messages.Meta{Trace: id}, ID: id, Server: server, Method: method, Params: params, Idempotent: true, Reply: port}
	e.core.Ask(call)
	select {
	case a := <-port:
		switch {
		case a.Err != nil:
			return nil, a.Err
		case a.RPCError != nil:
			if string(jsonrpc.Get(a.RPCError, "code")) == "-32601" { // it has none of this kind
				return json.RawMessage(`{"resources":[],"resourceTemplates":[],"prompts":[]}`), nil
			}
			text, _ := jsonrpc.Unquote(jsonrpc.Get(a.RPCError, "message"))
			return nil, &Error{Code: messages.CodeConnection, Server: server, Message: method + " was refused: " + text}
		}
		return a.Result, nil
	case <-ctx.Done():
		e.core.Cancel(call, "nobody waits for it any more")
		return nil, &Error{Code: messages.CodeExecutionTimeout, Server: server, Message: method + " was not answered in time", Cause: ctx.Err()}
	}
}

// changed marks lists of a server that may have changed. list "": all.
func (l *childLists) changed(server string, list actors.ChildList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind := range listKinds {
		c := l.lists[listKey{server, listKind(kind)}]
		ofPrompts := listKind(kind) == listPrompts
		if c == nil || list == actors.PromptList && !ofPrompts || list == actors.ResourceList && ofPrompts {
			continue
		}
		switch {
		case c.reading != nil && list == "": // it is being read from the new child
		case c.reading != nil:
			c.again = true
		case c.read:
			c.stale = true
		}
	}
}

// renew reads lists that changed anew, each at its own pace, and returns the
// notifications of those that are others now, and when the next one is due; 0:
// none is.
func (l *childLists) renew() (notices []string, next time.Duration) {
	now := time.Now()
	var readings []<-chan struct{}
	l.mu.Lock()
	for key, c := range l.lists {
		if !c.stale || c.reading != nil {
			continue
		}
		if wait := c.due.Sub(now); wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		if now.Sub(c.due) > 2*c.pause {
			c.pause = 0
		}
		c.pause = min(max(2*c.pause, tellPause), lastPause)
		c.due = now.Add(c.pause)
		readings = append(readings, l.begin(key, c))
	}
	l.mu.Unlock()
	for _, done := range readings {
		select {
		case <-done:
		case <-l.x.ctx.Done():
			return nil, 0
		}
	}
	var offering [len(listKinds)]string
	for kind := range listKinds {
		_, offering[kind] = l.offering(listKind(kind))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	others := map[string]bool{}
	for key, c := range l.lists {
		if c.told != c.print {
			c.told = c.print
			others[listKinds[key.kind].notice] = l.x.shows(key.kind)
		}
	}
	for kind, m := range l.merged {
		if m != nil && l.told[kind] != offering[kind] {
			l.told[kind] = offering[kind]
			others[listKinds[kind].notice] = l.x.shows(listKind(kind))
		}
	}
	for method, shown := range others {
		if shown {
			notices = append(notices, method)
		}
	}
	return notices, next
}

func (x *exposure) shows(kind listKind) bool {
	if kind == listPrompts {
		return x.prompts
	}
	return x.resources
}

// all reads a list of all servers that have it, waiting until ctx ends.
func (l *childLists) all(ctx context.Context, kind listKind) *mergedList {
	l.x.meet(ctx, func(known *index.ServerEntry) bool { return known == nil || !known.Toolset.Offers.Known() })
	parts, servers := l.offering(kind)
	l.mu.Lock()
	stamp := l.stamp // before anything is read: what changes meanwhile is merged the next time
	l.forget()
	l.mu.Unlock()
	items := make([][]listItem, len(parts))
	var readers sync.WaitGroup
	for i, p := range parts {
		readers.Go(func() { items[i] = l.get(ctx, p.server, p.hash, kind) })
	}
	readers.Wait()
	merged := l.kept(kind)
	if merged != nil && merged.stamp == stamp && merged.servers == servers {
		return merged
	}
	merged = l.x.merge(kind, parts, items)
	merged.stamp, merged.servers = stamp, servers
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.merged[kind] == nil {
		l.told[kind] = servers
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

// kept is what was merged last; nil: nothing.
func (l *childLists) kept(kind listKind) *mergedList {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.merged[kind]
}

// merge puts the lists of servers together, by the names that clients see.
func (x *exposure) merge(kind listKind, servers []offer, items [][]listItem) *mergedList {
	m := &mergedList{owners: map[string][]string{}}
	var things []thing
	for i, list := range items {
		for _, it := range list {
			m.owners[it.key] = append(m.owners[it.key], servers[i].server)
			things = append(things, thing{server: servers[i].server, name: it.key, raw: it.raw})
			if kind == listTemplates {
				t := ownedTemplate{server: servers[i].server}
				if len(it.key) <= maxTemplate {
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
	m.named = &namedSet{key: listKinds[kind].key}
	for _, t := range things {
		as := t.name
		if len(m.owners[t.name]) > 1 {
			as = ownURI(t.server, t.name)
		}
		m.named.list = append(m.named.list, exposed{t, as})
	}
	slices.SortFunc(m.named.list, func(a, b exposed) int { return cmp.Compare(a.as, b.as) })
	return m
}
