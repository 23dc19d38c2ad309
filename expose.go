package metamcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// exposure is what of the servers clients see themselves, beside the four tools:
// their tools, prompts and resources under names that no two of them share.
// Resources are readable whether they are listed or not, since results link to
// them.
type exposure struct {
	e                         *Engine
	tools, prompts, resources bool // listed
	plain                     bool // names without their server's
	only                      bool // without the four

	four  []json.RawMessage // their definitions
	ours  map[string]bool   // their names
	lists *childLists

	names naming
	set   atomic.Pointer[toolSet]
	fresh sync.Mutex             // held by who makes set anew
	told  atomic.Pointer[string] // the print of the tools that clients know of; nil: none were listed
	wake  chan struct{}

	mu     sync.Mutex
	asked  map[string]*asking   // servers that were contacted for a list, by name and hash
	behind map[string]time.Time // since when servers are to list what they announced, likewise

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
}

// toolSet is all exposed tools at one moment.
type toolSet struct {
	of     *index.Catalog
	things []thing
	named  *namedSet
}

// asking is a server that was contacted.
type asking struct {
	at   time.Time
	done chan struct{} // closed when it has answered
}

// askedKey is what a server is remembered by: another configuration is another server.
func askedKey(entry *supervision.Entry) string {
	spec := entry.Spec()
	return spec.Name + "\x00" + spec.Hash
}

// askAgain is how long a server that nothing is known of is not contacted a
// second time, and one whose list could not be read not asked for it.
const askAgain = time.Minute

func (e *Engine) newExposure(st *config.Settings) *exposure {
	x := &exposure{
		e: e, plain: st.ExposePrefix == "none", only: st.ExposeOnly,
		tools: slices.Contains(st.Expose, "tools"), prompts: slices.Contains(st.Expose, "prompts"), resources: slices.Contains(st.Expose, "resources"),
		wake: make(chan struct{}, 1), asked: map[string]*asking{}, behind: map[string]time.Time{}, ours: map[string]bool{},
	}
	x.ctx, x.stop = context.WithCancel(context.Background())
	x.lists = newChildLists(x)
	x.names = naming{plain: x.plain, log: e.log, ours: x.ours}
	return x
}

// learnFour reads the definitions of our own tools from the server that lists
// them otherwise.
func (x *exposure) learnFour(s *server.MCPServer) error {
	answer, ok := s.HandleMessage(x.ctx, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)).(mcp.JSONRPCResponse)
	if !ok {
		return fmt.Errorf("our own tools cannot be listed")
	}
	result, err := compact(answer.Result)
	if err != nil {
		return err
	}
	x.four = nil
	return jsonrpc.Elements(jsonrpc.Get(result, "tools"), func(el []byte) error {
		x.four = append(x.four, el)
		name, err := jsonrpc.Unquote(jsonrpc.Get(el, "name"))
		x.ours[name] = true
		return err
	})
}

// capabilities are what clients are told of what they can ask for.
func (x *exposure) capabilities() []server.ServerOption {
	opts := []server.ServerOption{
		server.WithToolCapabilities(x.tools), server.WithResourceCapabilities(true, x.resources),
		server.WithExtensions(map[string]any{messages.ExtensionTasks: map[string]any{}}), // where a server has it
	}
	if x.prompts {
		opts = append(opts, server.WithPromptCapabilities(true))
	}
	if x.prompts || x.resources {
		opts = append(opts, server.WithCompletions())
	}
	return opts
}

// missing tells of servers of which nothing is listed.
const missing = " Of a server that could not be started nothing is listed: if tools that should be there are missing, tell the user to look at metamcp list and metamcp test SERVER."

func (x *exposure) instructions() string {
	switch {
	case x.only:
		return "metamcp stands in front of many MCP servers, which start by themselves on first use. An error says what to do next." + missing
	case x.tools:
		return instructions + " The servers' own tools are listed as well and can be called directly." + missing
	}
	return instructions
}

// begin starts to tell clients of changes, where they are shown anything that
// may change.
func (x *exposure) begin() {
	if x.any() {
		x.work.Go(x.watch)
	}
}

// any says whether clients are shown anything of the servers' own.
func (x *exposure) any() bool { return x.tools || x.prompts || x.resources }

// close ends what is under way.
func (x *exposure) close() {
	x.stop()
	x.work.Wait()
}

func (x *exposure) catalogChanged() {
	x.poke()
}

func (x *exposure) listChanged(server string, list actors.ChildList) {
	x.lists.changed(server, list)
	x.poke()
}

func (x *exposure) poke() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// tellPause is the least distance between two looks for changes.
const tellPause = time.Second

// watch tells clients of lists that are others now, at a pace.
func (x *exposure) watch() {
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	for {
		select {
		case <-x.wake:
		case <-due.C:
		case <-x.ctx.Done():
			return
		}
		if told := x.told.Load(); told != nil {
			if now := x.toolSet().named.sum(); now != *told {
				x.told.Store(&now)
				x.tell(mcp.MethodNotificationToolsListChanged)
			}
		}
		notices, next := x.lists.renew()
		for _, method := range notices {
			x.tell(method)
		}
		if next > 0 {
			due.Reset(next)
		}
		select {
		case <-time.After(tellPause):
		case <-x.ctx.Done():
			return
		}
	}
}

func (x *exposure) tell(method string) {
	x.e.clients.Range(func(_, peer any) bool {
		peer.(client).peer.ListChanged(method)
		return true
	})
}

// toolSet names the tools of the newest catalog. Every call of a tool asks for it, so
// one names them for all, and only where there are others: each listing of any server
// makes a new catalog.
func (x *exposure) toolSet() *toolSet {
	if set := x.set.Load(); set != nil && set.of == x.e.core.Catalog() {
		return set
	}
	x.fresh.Lock()
	defer x.fresh.Unlock()
	cat, before := x.e.core.Catalog(), x.set.Load()
	if before != nil && before.of == cat {
		return before
	}
	set := &toolSet{of: cat}
	for s := range cat.All() {
		for _, t := range s.Entries {
			set.things = append(set.things, thing{server: t.Tool.Server, name: t.Tool.Name, raw: t.Tool.Raw, closed: !t.Enabled})
		}
	}
	if before != nil && slices.EqualFunc(before.things, set.things, thing.sameName) {
		set.named = before.named.of(set.things)
	} else {
		set.named = x.names.name(kindTool, set.things)
	}
	x.set.Store(set)
	return set
}

// meet contacts those of the servers that nothing is known of, all at once, and
// waits for them until ctx ends. Each is contacted once in a minute, so that one
// that has failed is not waited for with each list; what comes later is told as a
// change.
func (x *exposure) meet(ctx context.Context, unknown func(known *index.ServerEntry) bool) {
	dir, cat := x.e.core.Directory(), x.e.core.Catalog()
	x.mu.Lock()
	maps.DeleteFunc(x.asked, func(_ string, a *asking) bool { return time.Since(a.at) >= askAgain })
	x.mu.Unlock()
	var waiting []chan struct{}
	for _, name := range dir.Names() {
		entry, ok := dir.Lookup(name)
		if !ok || entry.Spec().Disabled || entry.Spec().Err != nil || !unknown(cat.Server(name)) {
			continue
		}
		key := askedKey(entry)
		x.mu.Lock()
		a := x.asked[key]
		recent := a != nil && time.Since(a.at) < askAgain
		if !recent {
			a = &asking{time.Now(), make(chan struct{})}
			x.asked[key] = a
		}
		x.mu.Unlock()
		if time.Since(a.at) < x.e.Config().Settings.DiscoverTimeout { // long enough for one that hangs
			waiting = append(waiting, a.done)
		}
		if !recent {
			x.e.core.Contact(name, false, contactFunc(func(err *Error) {
				if err != nil {
					x.e.log.Warn("what a server has is not listed, since it cannot be reached", "server", name, "error", err.Message, "hint", err.Hint)
				}
				close(a.done)
			}))
		}
	}
	for _, done := range waiting {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// patient is a context that ends when a list has waited long enough.
func (x *exposure) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, x.e.Config().Settings.DiscoverTimeout)
}

// listTools answers tools/list.
func (x *exposure) listTools(ctx context.Context, cursor string, era messages.Era) (json.RawMessage, *Error) {
	if cursor == "" {
		wait, cancel := x.patient(ctx)
		defer cancel()
		x.meet(wait, func(known *index.ServerEntry) bool { return known == nil })
	}
	set := x.toolSet().named
	if x.told.Load() == nil {
		now := set.sum()
		if x.told.CompareAndSwap(nil, &now) {
			x.poke() // what changed since set was made found nothing that clients know of
		}
	}
	var first []json.RawMessage
	if !x.only {
		first = x.four
	}
	return set.page("tools", cursor, first, x.withoutSecrets, era, era == messages.EraModern && len(x.late()) > 0)
}

// withoutSecrets is a definition as its server's results are shown. The catalog keeps
// what the server wrote; what it lists beside tools comes without secrets already.
func (x *exposure) withoutSecrets(server string, definition json.RawMessage) json.RawMessage {
	f := &messages.Frame{Result: definition}
	x.e.scrubFrame(server, f)
	return f.Result
}

// catchUp has the servers list their tools anew of which a child was started, or has announced
// a change, and has not listed that yet, and waits for them until ctx ends. One that has not
// done so for as long as a list waits is left alone for a minute.
func (x *exposure) catchUp(ctx context.Context) {
	x.mu.Lock()
	maps.DeleteFunc(x.behind, func(_ string, since time.Time) bool { return time.Since(since) >= askAgain })
	x.mu.Unlock()
	var waiting []<-chan struct{}
	x.e.core.Directory().Each(func(entry *supervision.Entry) {
		name, key := entry.Spec().Name, askedKey(entry)
		x.e.core.Retry(name)
		if !entry.Lists() || !x.mayCatchUp(key) {
			return
		}
		done := make(chan struct{})
		waiting = append(waiting, done)
		x.e.core.Contact(name, true, contactFunc(func(*Error) {
			x.caughtUp(key)
			close(done)
		}))
	})
	for _, done := range waiting {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// mayCatchUp says whether a server is waited for that is behind.
func (x *exposure) mayCatchUp(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	since, known := x.behind[key]
	if !known {
		x.behind[key] = time.Now()
		return true
	}
	return time.Since(since) < x.e.Config().Settings.DiscoverTimeout
}

// caughtUp takes notice of the answer of a server that was asked to list what it announced:
// one that refuses, too, keeps nobody waiting.
func (x *exposure) caughtUp(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.behind, key)
}

// findTool is whose tool a name is. The servers that nothing is known of are asked where
// nobody has it, and those of which what is known is old.
func (x *exposure) findTool(ctx context.Context, name string) (owner, bool) {
	if o, ok := x.toolSet().named.owner(name); ok {
		return o, true
	}
	wait, cancel := x.patient(ctx)
	defer cancel()
	x.meet(wait, func(known *index.ServerEntry) bool { return known == nil })
	x.catchUp(wait)
	return x.toolSet().named.owner(name)
}

// naming gives things of servers names that no two of them share.
type naming struct {
	plain bool
	ours  map[string]bool
	log   *slog.Logger

	mu   sync.Mutex
	said map[string]bool // the names that clash, by kind and name, and whose lists do not fit
}
