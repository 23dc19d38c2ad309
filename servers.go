package metamcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// Server is one configured server and how it does.
type Server struct {
	Name        string   `json:"name"`
	State       string   `json:"state"` // IDLE, CONNECTING, ACTIVE, FAILED or CLOSED
	Connected   bool     `json:"connected"`
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	// Known says whether the server's tools have been listed at least once;
	// Tools and Enabled mean nothing where it is false.
	Known   bool `json:"known"`
	Tools   int  `json:"tools"`
	Enabled int  `json:"enabled"`
	// Changed counts tools whose definition is not the accepted one, new ones
	// included, Held those of them that are closed for it, and Suspicious those
	// with texts that read like orders to a model.
	Changed    int `json:"changed,omitempty"`
	Held       int `json:"held,omitempty"`
	Suspicious int `json:"suspicious,omitempty"`
	// Error is why the server failed last; nil where it works.
	Error *Error `json:"error,omitempty"`
	// RetryAt is when it is tried again; zero: with the next call.
	RetryAt  time.Time `json:"retryAt,omitzero"`
	Disabled bool      `json:"disabled,omitempty"`
	// Provisioned is the package that metamcp installed the server from, like
	// "npm:server-everything@1.2.3"; "": it was configured.
	Provisioned string `json:"provisioned,omitempty"`
}

// Tool is one tool of a server.
type Tool struct {
	Server  string   `json:"server"`
	Name    string   `json:"name"`
	Title   string   `json:"title,omitempty"`
	Summary string   `json:"summary,omitempty"` // the description's first sentence
	Enabled bool     `json:"enabled"`
	Tags    []string `json:"tags,omitempty"`
	// Change is how the definition stands to the accepted one, and Parts what of
	// it differs; Held says that the tool is closed for it.
	Change ToolChange `json:"change,omitempty"`
	Parts  []string   `json:"parts,omitempty"`
	Held   bool       `json:"held,omitempty"`
	// Signs are the kinds of text in the definition that read like orders to a
	// model; docs/PINS.md lists them.
	Signs []string `json:"signs,omitempty"`
	// Definition is the child's own, byte for byte.
	Definition json.RawMessage `json:"definition,omitempty"`
	// InputSchema is a part of Definition.
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	// HiddenText says that title or description hold characters that nobody
	// sees, such as zero-width ones or terminal sequences. Title and Summary
	// are without them.
	HiddenText bool `json:"hiddenText,omitempty"`

	listed *messages.Tool
	review *messages.ToolReview // nil: nothing is to be said
}

// ToolChange is how a tool's definition stands to the accepted one: "changed",
// "new", or "" where it is the accepted one or nothing was accepted.
type ToolChange = messages.ToolChange

// ListServers returns all configured servers, by name. It starts none.
func (e *Engine) ListServers() []Server {
	names := e.core.Directory().Names()
	cat := e.core.Catalog()
	out := make([]Server, 0, len(names))
	for _, name := range names {
		if entry, ok := e.core.Directory().Lookup(name); ok {
			out = append(out, describeServer(entry, cat.Server(name)))
		}
	}
	return out
}

func describeServer(entry *supervision.Entry, known *index.ServerEntry) Server {
	spec, status := entry.Spec(), entry.Status()
	s := Server{
		Name: spec.Name, State: supervision.StateName(status.State), Connected: status.Connected,
		Description: spec.Description, Tags: spec.Tags, Error: status.LastError, RetryAt: status.RetryAt, Disabled: spec.Disabled,
	}
	if spec.Provisioned != nil {
		s.Provisioned = spec.Provisioned.Package
	}
	if known == nil {
		return s
	}
	s.Known = true
	s.Tools = len(known.Entries)
	for _, t := range known.Entries {
		if t.Enabled {
			s.Enabled++
		}
		if r := t.Review; r != nil {
			s.Changed += one(r.Change != "")
			s.Held += one(r.Held)
			s.Suspicious += one(len(r.Signs) > 0)
		}
	}
	if s.Description == "" {
		instructions, _ := index.Plain(known.Toolset.Instructions)
		s.Description = firstLine(instructions)
	}
	if s.Description == "" && known.Toolset.ServerName != "" {
		s.Description, _ = index.Plain(strings.TrimSpace(known.Toolset.ServerName + " " + known.Toolset.ServerVersion))
	}
	return s
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// ListTools returns a server's tools in the server's order. A server whose
// tools are not known is started and asked first; one whose listing is older than
// catalog.ttlMs is asked in the background, for the next who wants to know. ctx bounds
// how long that is waited for: where its time is over first the error can be retried, since
// the server goes on.
func (e *Engine) ListTools(ctx context.Context, server string, includeDisabled bool) ([]Tool, error) {
	known, err := e.known(ctx, server)
	if err != nil {
		return nil, err
	}
	e.core.Refresh(server)
	out := make([]Tool, 0, len(known.Entries))
	for _, t := range known.Entries {
		if t.Enabled || includeDisabled {
			out = append(out, describeTool(t))
		}
	}
	return out, nil
}

// Refresh asks a server for its tools anew, and starts it where it does not run: from
// then on the catalog, and the cache on disk, have what it says now. What was known of
// it stays where that fails.
func (e *Engine) Refresh(ctx context.Context, server string) error {
	return e.contact(ctx, server, true)
}

// ToolDetails returns one tool whole. What is old is refreshed as by
// [Engine.ListTools], and before it is said that there is no such tool.
func (e *Engine) ToolDetails(ctx context.Context, server, tool string) (*Tool, error) {
	t, err := e.toolDetails(ctx, server, tool)
	if err == nil {
		e.core.Refresh(server)
	}
	return t, err
}

func (e *Engine) toolDetails(ctx context.Context, server, tool string) (*Tool, error) {
	known, err := e.known(ctx, server)
	if err != nil {
		return nil, err
	}
	entry := known.Tool(tool)
	if entry == nil && !e.core.Fresh(known) {
		// Only a running server can say that there is no such tool, and only now.
		err := e.awaitContact(ctx, server, func(port messages.ContactPort) { e.core.Renew(known, port) })
		if err != nil {
			return nil, err
		}
		if known = e.core.Catalog().Server(server); known != nil {
			entry = known.Tool(tool)
		}
	}
	if entry == nil {
		return nil, e.core.ToolNotFound(server, tool)
	}
	t := describeTool(entry)
	t.Definition = entry.Tool.Raw
	t.InputSchema = entry.Tool.InputSchema
	return &t, nil
}

func describeTool(t *index.Entry) Tool {
	title, inTitle := index.Plain(t.Tool.Title)
	description, inDescription := index.Plain(t.Tool.Description)
	tool := Tool{
		Server: t.Tool.Server, Name: t.Tool.Name, Title: title, Summary: summary(description),
		Enabled: t.Enabled, Tags: t.Tags, HiddenText: inTitle || inDescription,
		listed: t.Tool, review: t.Review,
	}
	if r := t.Review; r != nil {
		tool.Change, tool.Parts, tool.Held, tool.Signs = r.Change, r.Parts, r.Held, r.Signs
	}
	return tool
}

// known returns what the catalog has of a server, asking it where there is
// nothing.
func (e *Engine) known(ctx context.Context, server string) (*index.ServerEntry, error) {
	if entry, ok := e.core.Directory().Lookup(server); ok {
		if spec := entry.Spec(); spec.Disabled {
			return nil, supervision.Disabled(spec)
		}
		if known := e.core.Catalog().Server(server); known != nil {
			return known, nil
		}
	}
	for _, refresh := range []bool{false, true} {
		if err := e.contact(ctx, server, refresh); err != nil {
			return nil, err
		}
		if known := e.core.Catalog().Server(server); known != nil {
			return known, nil
		}
		// An entry that changes is taken out of the catalog before its server hears of
		// that: until then the server takes itself for listed, unless it is to list anew.
		if _, ok := e.core.Directory().Lookup(server); !ok {
			break
		}
	}
	return nil, e.core.Unlisted(server)
}

// contact waits until the catalog has a live listing of the server.
func (e *Engine) contact(ctx context.Context, server string, refresh bool) error {
	return e.awaitContact(ctx, server, func(port messages.ContactPort) { e.core.ContactNamed(server, refresh, port) })
}

// awaitContact waits for what comes of a contact that begin makes.
func (e *Engine) awaitContact(ctx context.Context, server string, begin func(port messages.ContactPort)) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return notAwaited(server, ctx.Err(), "Nothing was sent.")
	}
	port := make(contactPort, 1)
	begin(port)
	select {
	case got := <-port:
		if got != nil {
			return got
		}
		return nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return notAwaited(server, ctx.Err(), "What was begun for it goes on: the server is started, and lists its tools.")
		}
		return e.notListed(server, ctx.Err())
	}
}

// notAwaited is the error for a caller who waits for a server's tools no longer.
func notAwaited(server string, cause error, hint string) *Error {
	return &Error{
		Code: messages.CodeCancelled, Server: server, Cause: cause,
		Message: "the request for the server's tools was cancelled by its caller: " + cause.Error(), Hint: hint,
	}
}

// notListed is the error of a server whose listing goes on; it says how far that is.
func (e *Engine) notListed(server string, cause error) *Error {
	far := "it is not connected yet"
	if entry, ok := e.core.Directory().Lookup(server); ok {
		switch st := entry.Status(); {
		case st.Connected:
			far = "it is connected, and has not answered yet"
		case st.State == messages.StateConnecting:
			far = "it is still being started"
		}
	}
	return &Error{
		Code: messages.CodeConnection, Server: server, Class: messages.ClassOffline, Retryable: true, Cause: cause,
		Message: "the server did not list its tools in time; " + far,
		Hint:    "Ask again in a few seconds.",
	}
}

// contactPort takes the one answer to a contact.
type contactPort chan *messages.Error

// Contacted implements messages.ContactPort.
func (p contactPort) Contacted(_ uint64, err *messages.Error) { p <- err }

// summary is a description's first sentence, or as much of it as fits a line.
func summary(description string) string {
	s := firstLine(description)
	if i := strings.Index(s, ". "); i >= 0 {
		s = s[:i+1]
	}
	const long = 160
	if len(s) <= long {
		return s
	}
	cut := strings.LastIndexByte(s[:long], ' ')
	if cut < long/2 {
		cut = long
	}
	return strings.ToValidUTF8(s[:cut], "") + "…"
}

func firstLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	i := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) != "" })
	if i < 0 {
		return ""
	}
	return strings.TrimLeft(strings.TrimSpace(lines[i]), "# ") // a heading is a line like any other
}
