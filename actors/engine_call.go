package actors

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Call checks one tools/call and hands it to the server's breaker. The call's
// id must be unique in this process and below 2^47. It returns
// at once; the call's port gets exactly one answer, possibly before Call
// returns and on the caller's goroutine. Args must be one valid JSON object,
// or empty.
//
// The checks are here and nowhere else, for every way into the runtime: the
// server exists, the tool exists and is enabled, and the arguments fit its
// input schema. A listing from the schema cache may confirm all of that, but
// only one from a running child may deny it. Where the catalog changes before a
// child gets the call, the tool is looked at once more.
//
// What takes time is done by a worker: arguments that are not certainly valid
// at first sight, and looking for the nearest names.
func (e *Engine) Call(call *messages.Call) {
	call.Principal = e.principal(call.Session)
	tracked(call)
	entry, ok := e.dir.Lookup(call.Server)
	if !ok {
		e.later(call, func() func() {
			err := e.ServerNotFound(call.Server)
			return func() { e.refuse(call, err) }
		})
		return
	}
	call.Checked = e.view.Version()
	known := e.view.Load().Server(call.Server)
	if known == nil {
		e.callAfterContact(entry, call, false, false)
		return
	}
	if tool := known.Tool(call.Tool); tool != nil && tool.Enabled && tool.Validator.Accepts(call.Args) {
		e.send(entry, call, tool, known)
		return
	}
	e.later(call, func() func() {
		known := known
		if now := e.view.Load().Server(call.Server); now != nil {
			known = now // which may have come while the call waited for a worker
		}
		tool, err, final := e.check(entry.Spec(), call, known)
		switch {
		case err == nil:
			return func() { e.send(entry, call, tool, known) }
		case final:
			return func() { e.refuse(call, e.doubted(call.Server, err)) }
		default:
			return func() { e.callAfterContact(entry, call, e.present(entry, known.Toolset), false) }
		}
	})
}

// send hands a call that passed its checks on, and refreshes a listing that is
// old.
func (e *Engine) send(entry *supervision.Entry, call *messages.Call, tool *index.Entry, known *index.ServerEntry) {
	call.Idempotent = tool.Tool.ReadOnly || tool.Tool.Idempotent
	origin := call.Origin() // the call is others' once it is sent
	e.hand(entry, call)
	if known.Toolset.Live { // else the call starts the child, which lists
		e.refresh(entry, known, origin)
	}
}

// check holds a call against what is known of its server. final says that the
// verdict stands even though a fresh listing might say otherwise.
func (e *Engine) check(spec *messages.ServerSpec, call *messages.Call, known *index.ServerEntry) (tool *index.Entry, err *messages.Error, final bool) {
	if spec.Disabled {
		return nil, supervision.Disabled(spec), true
	}
	tool = known.Tool(call.Tool)
	fresh := e.Fresh(known)
	if tool == nil {
		return nil, toolNotFound(known, call), fresh
	}
	if held(tool) {
		return nil, toolHeld(call, tool.Review), fresh
	}
	if !tool.Enabled {
		return nil, toolDisabled(call), true
	}
	if problems := tool.Validator.Validate(call.Args); len(problems) > 0 {
		return nil, validationError(call, problems), fresh
	}
	return tool, nil, true
}

// stale says whether a listing is too old. One that was made after now, by a clock that
// went back since, is as old as anybody's guess.
func (e *Engine) stale(ts *messages.Toolset) bool {
	ttl, age := time.Duration(e.catalogTTL.Load()), time.Since(ts.Fetched)
	return ttl > 0 && (age < 0 || age > ttl)
}

// Fresh says whether what is known of a server is final: a child that runs now listed it,
// not too long ago, and none has announced a change since that is still to be listed. Otherwise
// the server may have other tools by now. It may as well where a child is beside that one which
// has not listed its tools, or has failed to list what it has announced: nobody waits for these.
func (e *Engine) Fresh(known *index.ServerEntry) bool {
	ts := known.Toolset
	entry, ok := e.dir.Lookup(ts.Server)
	if !ok || !e.present(entry, ts) || entry.Behind() {
		return false
	}
	// A listing that came while this one was looked at is what is not behind.
	now := e.view.Load().Server(ts.Server)
	return now != nil && now.Toolset == ts
}

// present says whether a listing is of a child that runs now, and not too old. It may lack
// what has been announced since.
func (e *Engine) present(entry *supervision.Entry, ts *messages.Toolset) bool {
	return ts.Live && !e.stale(ts) && entry.Runs(ts)
}

// refreshPause is how long after one refresh of a listing the next may begin: one
// that fails leaves the listing as old as it was.
const refreshPause = time.Minute

// Refresh has the server list its tools anew in the background where its listing is
// too old. Whoever shows that listing says so by calling it. A server that failed last
// is left to those who want to call it: nothing else bounds how often it is started in
// vain, and it may have one try to show that it works again.
func (e *Engine) Refresh(server string) {
	entry, ok := e.dir.Lookup(server)
	if !ok {
		return
	}
	if entry.Status().LastError != nil {
		return
	}
	if known := e.view.Load().Server(server); known != nil {
		e.refresh(entry, known, messages.Meta{})
	}
}

func (e *Engine) refresh(entry *supervision.Entry, known *index.ServerEntry, origin messages.Meta) {
	if e.stale(known.Toolset) && entry.MayRefresh(time.Now(), min(time.Duration(e.catalogTTL.Load()), refreshPause)) {
		e.contact(entry, &messages.Contact{Meta: origin, Refresh: true, Background: true, Reply: nobody{}})
	}
}

// Contact makes sure that the catalog has a listing of the server from a
// running child: it connects where nobody has. The port hears exactly once.
// refresh lists anew even where there is one. It comes after all calls: where one needs
// the place that it has in the pool, the port hears POOL_SATURATED.
func (e *Engine) Contact(server string, refresh bool, port messages.ContactPort) {
	e.contactBy(server, &messages.Contact{Refresh: refresh, Reply: port})
}

// ContactNamed is Contact for somebody who has named the server and waits for it. It gets
// its place in the pool as a call does, and keeps it.
func (e *Engine) ContactNamed(server string, refresh bool, port messages.ContactPort) {
	e.contactBy(server, &messages.Contact{Refresh: refresh, ForCall: true, Reply: port})
}

func (e *Engine) contactBy(server string, m *messages.Contact) {
	entry, ok := e.dir.Lookup(server)
	if !ok {
		m.Reply.Contacted(0, e.ServerNotFound(server))
		return
	}
	e.contact(entry, m)
}

func (e *Engine) contact(entry *supervision.Entry, m *messages.Contact) {
	m.Principal, m.ID = e.principal(m.Session), e.contacts.Add(1)
	e.sys.Send(entry.Breaker, m)
}

// Ask hands any request but tools/call to the server's breaker. Whether the child
// has what is asked for is for the child to say. For the rest it is like
// [Engine.Call].
func (e *Engine) Ask(call *messages.Call) {
	call.Principal = e.principal(call.Session)
	tracked(call)
	entry, ok := e.dir.Lookup(call.Server)
	if !ok {
		e.refuse(call, e.ServerNotFound(call.Server))
		return
	}
	e.hand(entry, call)
}

// tracked lets a call be found by who has made it, and by its copies, before any of
// them is handed over.
func tracked(call *messages.Call) {
	if call.Taker == nil {
		call.Taker = &atomic.Value{}
	}
}

// hand gives a call to a breaker, which is noted first: where it is not yet when the
// call is given up, the breaker finds that in the call.
func (e *Engine) hand(entry *supervision.Entry, call *messages.Call) {
	call.Taker.Store(entry.Breaker)
	e.sys.Send(entry.Breaker, call)
}

// Cancel gives up a call. Unless it was answered already its port gets
// CANCELLED, and the child is told.
func (e *Engine) Cancel(call *messages.Call, reason string) {
	if call.Cancelled != nil {
		call.Cancelled.Store(true)
	}
	if u, ok := e.unsent.Load(call.ID); ok {
		u.(*unsent).giveUp(supervision.Cancelled(call))
		return
	}
	if call.Taker == nil {
		return
	}
	// The server may have been removed since: its breaker has the call all the same.
	if breaker, ok := call.Taker.Load().(*kernel.PID); ok {
		e.sys.Send(breaker, &messages.Cancel{Meta: call.Origin(), Call: call.ID, Reason: reason})
	}
}

func (e *Engine) refuse(call *messages.Call, err *messages.Error) {
	own := *err
	own.Server, own.Tool = shortName(call.Server), shortName(call.Tool)
	e.sys.Contain("engine", func() { call.Reply.Answer(&messages.Answer{Call: call.ID, Err: &own, Server: call.Server}) })
}

// shortName keeps a name that nobody has from being repeated at any length.
func shortName(name string) string {
	const enough = 128
	return messages.Cut(name, enough)
}

// nobody hears of a contact that nobody waits for.
type nobody struct{}

func (nobody) Contacted(uint64, *messages.Error) {}

// nearestNames is how many names an error suggests.
const nearestNames = 3

// ServerNotFound is the error for a server that there is not: what is wrong with its
// entry in the configuration, or the nearest names where there is none.
func (e *Engine) ServerNotFound(server string) *messages.Error {
	if err := e.wrongEntry(server); err != nil {
		return err
	}
	return notFound(server, e.dir.Names())
}

// wrongEntry is what is wrong with the entry of a server that was left out for it; nil:
// there is no such entry.
func (e *Engine) wrongEntry(server string) *messages.Error {
	if of := e.leftOut.Load(); of != nil && *of != nil {
		if err := (*of)(server); err != nil {
			return e.opts.Scrub(err)
		}
	}
	return nil
}

func notFound(server string, names []string) *messages.Error {
	err := supervision.NotFound(shortName(server), "no such name in the configuration")
	if near := index.Nearest(server, slices.Values(names), nearestNames); len(near) > 0 {
		err.Message += "; nearest: " + Quoted(near)
		err.Details = near
	}
	return err
}

// Unreachable says why a script that may reach these servers, nil: all, cannot
// reach one: it is none of them, there is none, its entry was left out, or it is
// disabled. nil: it may.
func (e *Engine) Unreachable(server string, only []string) *messages.Error {
	const list = "servers.list() names those that this script may reach."
	entry, ok := e.dir.Lookup(server)
	var wrong *messages.Error
	if !ok {
		wrong = e.wrongEntry(server)
	}
	switch {
	case (ok || wrong != nil) && only != nil && !slices.Contains(only, server):
		return &messages.Error{
			Code: messages.CodeServerNotFound, Server: shortName(server),
			Message: strconv.Quote(shortName(server)) + " is not one of the servers that this script may reach",
			Hint:    "Use one of those that servers.list() names, or run the script with more servers.",
		}
	case wrong != nil:
		return wrong
	case !ok:
		names := only
		if names == nil {
			names = e.dir.Names()
		}
		err := notFound(server, names)
		err.Hint = list
		return err
	case entry.Spec().Disabled:
		return supervision.Disabled(entry.Spec())
	}
	return nil
}

// ToolNotFound is the error for a tool that a server does not have, with the
// nearest names.
func (e *Engine) ToolNotFound(server, tool string) *messages.Error {
	known := e.view.Load().Server(server)
	if known == nil {
		known = &index.ServerEntry{}
	}
	return e.doubted(server, toolNotFound(known, &messages.Call{Server: server, Tool: tool}))
}

func toolNotFound(known *index.ServerEntry, call *messages.Call) *messages.Error {
	names := make([]string, 0, len(known.Entries))
	for _, t := range known.Entries {
		if t.Enabled {
			names = append(names, t.Tool.Name)
		}
	}
	err := &messages.Error{
		Code: messages.CodeToolNotFound, Server: call.Server, Tool: shortName(call.Tool),
		Message: strconv.Quote(call.Server) + " has no tool " + strconv.Quote(shortName(call.Tool)),
		Hint:    "Call mcp_discover with this server for the list of its tools.",
	}
	if near := index.Nearest(call.Tool, slices.Values(names), nearestNames); len(near) > 0 {
		err.Message += "; nearest: " + Quoted(near)
		err.Details = near
	}
	return err
}

func toolDisabled(call *messages.Call) *messages.Error {
	return &messages.Error{
		Code: messages.CodeToolDisabled, Server: call.Server, Tool: call.Tool,
		Message: strconv.Quote(call.Tool) + " of " + strconv.Quote(call.Server) + " is disabled by a tool rule",
		Hint:    "Use another tool, or ask the user to change metamcp.toolRules.",
	}
}

func held(tool *index.Entry) bool { return tool.Review != nil && tool.Review.Held }

// vet is the verdict on a call that a child is about to get: it may have waited for long
// since it was checked, and what the child lists, what rules and pins say of its tool, and
// whether the server is to be used at all may have changed meanwhile. Tools are looked at
// only where the catalog changed. A rule holds for a tool that the catalog does not have,
// too, as while a server whose entry has changed is yet to list; where tools are not held
// back, whether such a tool can still be called is for the child to say.
func (e *Engine) vet(call *messages.Call) *messages.Error {
	if entry, ok := e.dir.Lookup(call.Server); ok && entry.Spec().Disabled {
		return supervision.Disabled(entry.Spec())
	}
	if call.Checked == e.view.Version() || !call.OfTool() || call.Tool == "" {
		return nil
	}
	catalog := e.view.Load()
	known := catalog.Server(call.Server)
	tool := known.Tool(call.Tool)
	switch {
	case tool != nil && held(tool):
		return toolHeld(call, tool.Review)
	case tool != nil && !tool.Enabled, !catalog.Allows(call.Server, call.Tool):
		return toolDisabled(call)
	case tool == nil && known != nil && known.Toolset.Live && e.view.Holding():
		return toolNotFound(known, call)
	}
	return nil
}

// toolHeld is the error for a tool that is closed until a person accepts it.
func toolHeld(call *messages.Call, review *messages.ToolReview) *messages.Error {
	return &messages.Error{
		Code: messages.CodeToolDisabled, Server: call.Server, Tool: call.Tool,
		Message: strconv.Quote(call.Tool) + " of " + strconv.Quote(call.Server) + " is held back: " + HeldWhy(review),
		Hint:    "Use another tool, or ask the user to look at it with metamcp pins diff " + messages.ShellWord(call.Server) + " and to accept it with metamcp approve " + messages.ShellWord(call.Server) + ".",
	}
}

// HeldWhy says what keeps a tool closed, in words that name no text of the server's.
// The review is that of a tool that is held.
func HeldWhy(review *messages.ToolReview) string {
	switch {
	case review.Problem != "":
		return "it is not known what the user has accepted of it: " + review.Problem
	case review.Change == messages.ToolNew:
		return "the server did not have it when the user accepted its tools"
	case len(review.Parts) > 0:
		return "its " + strings.Join(review.Parts, ", ") + " changed after the user had accepted it"
	}
	return "its definition changed after the user had accepted it"
}

func validationError(call *messages.Call, problems []index.Problem) *messages.Error {
	err := &messages.Error{
		Code: messages.CodeValidation, Server: call.Server, Tool: call.Tool,
		Message: "the arguments do not fit the input schema of " + strconv.Quote(call.Tool) + "; nothing was sent: " + allOf(problems),
		Hint:    "Correct the arguments; mcp_discover with server and tool shows the schema.",
	}
	for _, p := range problems {
		err.Details = append(err.Details, p.String())
	}
	return err
}

// maxTold bounds what a message says of arguments that do not fit, in bytes, behind the
// first problem; the details have all that is known.
const maxTold = 600

// allOf is problems as a message lists them; there is at least one.
func allOf(problems []index.Problem) string {
	text := problems[0].String()
	first := len(text)
	for i, p := range problems[1:] {
		next := "; also " + p.String()
		if len(text)-first+len(next) > maxTold {
			text += "; and " + strconv.Itoa(len(problems)-1-i) + " more"
			break
		}
		text += next
	}
	if len(problems) >= index.MaxProblems {
		text += ", or there are others still"
	}
	return text
}

// Quoted is names as a sentence lists them; "" where there are none.
func Quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(n)
	}
	return strings.Join(out, ", ")
}
