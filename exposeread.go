package metamcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

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
	// maxTemplate is the longest template that is matched, and maxTemplates how
	// much of all templates of a server is, in bytes; one has maxTemplateNames
	// variables at most, which ask for maxPrefix characters in all.
	maxTemplate      = 4 << 10
	maxTemplates     = 256 << 10
	maxTemplateNames = 16
	maxPrefix        = 256
	// maxMatched is the longest URI that is held against templates, and maxMatching
	// the work of it for each server, in bytes times variables squared.
	maxMatched  = 8 << 10
	maxMatching = 10 << 20
)

var listSeed = maphash.MakeSeed()

// begin begins a reading where none is under way. upkeep says that no client waits for it.
// l.mu is held.
func (l *childLists) begin(key listKey, c *childList, upkeep bool) <-chan struct{} {
	if c.reading != nil {
		return c.reading
	}
	done := make(chan struct{})
	c.reading, c.again = done, false
	l.x.work.Go(func() {
		items, size, err := l.read(key, upkeep)
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
		return // of another configuration, or scrubbed otherwise
	}
	if err == nil && l.bytes-c.bytes+size > maxListsBytes {
		err = &Error{Message: fmt.Sprintf("the lists of all servers together have more than %d MiB", maxListsBytes>>20)}
	}
	first, before := !c.read, c.err
	c.stale, c.err, c.read = c.again, err, true
	if err != nil {
		c.failed = time.Now()
		if c.stale { // it changed meanwhile, and who was told of that found it being read
			l.x.poke()
		}
		if before != nil && before.Message == err.Message {
			return // it was said
		}
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
func (l *childLists) read(key listKey, upkeep bool) (items []listItem, size int, failure *Error) {
	kind := &listKinds[key.kind]
	ctx, cancel := context.WithTimeout(l.x.ctx, listPatience)
	defer cancel()
	seen, cursors := map[string]bool{}, map[string]bool{}
	left := 0
	params := json.RawMessage(nil)
	truncated := ""
	for pages := 1; ; pages++ {
		result, err := l.x.e.askServer(ctx, key.server, kind.method, params, upkeep)
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

// askServer runs one request of the host's own at a server: in the trace it is of no
// client's request.
func (e *Engine) askServer(ctx context.Context, server, method string, params json.RawMessage, upkeep bool) (json.RawMessage, *Error) {
	id := front.NextCall()
	port := make(answerPort, 1)
	call := &messages.Call{ID: id, Server: server, Method: method, Params: params, Upkeep: upkeep, Idempotent: true, Reply: port}
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
