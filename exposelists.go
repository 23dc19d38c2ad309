package metamcp

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/messages"
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
	failed  time.Time     // when that was, where there is an err
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

func newChildLists(x *exposure) *childLists {
	return &childLists{x: x, lists: map[listKey]*childList{}}
}

// refresh reads what a server lists where nothing is known or it may have changed, and
// after a while where that failed: a server that is away or refuses is not to be asked
// with each request of a client. Where ctx ends first, what was known before stays for
// now.
func (l *childLists) refresh(ctx context.Context, server, hash string, kind listKind) {
	key := listKey{server, kind}
	l.mu.Lock()
	c := l.of(key, hash)
	if c.read && !c.stale && (c.err == nil || time.Since(c.failed) < askAgain) {
		l.mu.Unlock()
		return
	}
	reading := l.begin(key, c, false)
	l.mu.Unlock()
	select {
	case <-reading:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.missed = c.missed || !c.read
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
