package demoserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The revisions that the server speaks; the newest legacy one is the default.
const modernVersion = "2026-07-28"

var legacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Keys of _meta that the modern era defines.
const (
	metaVersion        = "io.modelcontextprotocol/protocolVersion"
	metaServerInfo     = "io.modelcontextprotocol/serverInfo"
	metaSubscriptionID = "io.modelcontextprotocol/subscriptionId"
)

const (
	serverVersion = "1.0.0"
	instructions  = "A demonstration server: echo, add, slow, notes and a few tools that misbehave on purpose."
)

// meta is what the server reads of a request's _meta.
type meta struct {
	Version       string          `json:"io.modelcontextprotocol/protocolVersion"`
	ProgressToken json.RawMessage `json:"progressToken"`
	LogLevel      string          `json:"io.modelcontextprotocol/logLevel"`
}

func requestMeta(params json.RawMessage) meta {
	var p struct {
		Meta meta `json:"_meta"`
	}
	// Parameters that are no object have no _meta; each method judges them itself.
	_ = json.Unmarshal(params, &p)
	return p.Meta
}

// request answers a request, or starts what will answer it.
func (s *server) request(ctx context.Context, m message) error {
	mt := requestMeta(m.Params)
	modern := mt.Version >= modernVersion
	if m.Method == "server/discover" {
		if s.opts.DieOnDiscover {
			_, _ = fmt.Fprintln(s.opts.stderr(), "demo-server: expected initialize, got server/discover")
			exit(1)
			return nil
		}
		if s.opts.SilentOnDiscover {
			return nil
		}
		if !s.opts.speaks(EraModern) {
			return s.unknown(m)
		}
		modern = true
	}
	if refusal := s.refuse(m.Method, mt.Version, modern); refusal != nil {
		return s.out.failure(m.ID, refusal)
	}
	switch m.Method {
	case "initialize":
		return s.out.result(m.ID, s.initialize(m.Params))
	case "server/discover":
		return s.out.result(m.ID, s.discover())
	case "tools/list":
		return s.list(m, modern)
	case "tools/call":
		return s.call(ctx, m, mt, modern)
	case "subscriptions/listen":
		if modern {
			return s.listen(m)
		}
	case "resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"prompts/list", "prompts/get", "completion/complete", "tasks/get", "tasks/update", "tasks/cancel":
		if s.opts.Content {
			return s.contentOf(m, modern)
		}
	case "logging/setLevel":
		if !modern {
			var p struct{ Level string }
			_ = json.Unmarshal(m.Params, &p) // no level is none
			s.level = p.Level
			return s.out.result(m.ID, json.RawMessage("{}"))
		}
	case "ping":
		if !modern {
			return s.out.result(m.ID, json.RawMessage("{}"))
		}
	}
	return s.unknown(m)
}

func (s *server) unknown(m message) error {
	return s.out.failure(m.ID, &rpcError{Code: codeMethodNotFound, Message: "method not found: " + m.Method})
}

// refuse says why a request may not be answered in the era that it came in.
func (s *server) refuse(method, version string, modern bool) *rpcError {
	mismatch := &rpcError{
		Code:    codeVersion,
		Message: "unsupported protocol version",
		Data:    map[string]any{"supported": s.versions(), "requested": version},
	}
	switch {
	case modern && version != "" && version != modernVersion:
		return mismatch
	case modern && !s.opts.speaks(EraModern):
		return mismatch
	case modern:
		return nil
	case !s.opts.speaks(EraLegacy) && method == "initialize":
		return mismatch
	case !s.opts.speaks(EraLegacy):
		return &rpcError{Code: codeInvalidParams, Message: "_meta lacks " + metaVersion}
	case s.opts.Strict && !s.ready && method != "initialize" && method != "ping":
		return &rpcError{Code: codeInvalidParams, Message: "received a request before initialization was complete"}
	}
	return nil
}

func (s *server) versions() []string {
	var v []string
	if s.opts.speaks(EraModern) {
		v = append(v, modernVersion)
	}
	if s.opts.speaks(EraLegacy) {
		v = append(v, legacyVersions...)
	}
	return v
}

func (s *server) identity() json.RawMessage {
	return object("name", s.opts.Name, "version", serverVersion)
}

func (s *server) capabilities() json.RawMessage {
	if s.opts.Content {
		return json.RawMessage(`{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`)
	}
	return json.RawMessage(`{"tools":{"listChanged":true},"logging":{}}`)
}

func (s *server) initialize(params json.RawMessage) json.RawMessage {
	var p struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	version := legacyVersions[0]
	if json.Unmarshal(params, &p) == nil && slices.Contains(legacyVersions, p.ProtocolVersion) {
		version = p.ProtocolVersion
	}
	return object("protocolVersion", version, "capabilities", s.capabilities(),
		"serverInfo", s.identity(), "instructions", instructions)
}

func (s *server) discover() json.RawMessage {
	return s.modern("supportedVersions", s.versions(), "capabilities", s.capabilities(),
		"instructions", instructions, "ttlMs", 0, "cacheScope", "private")
}

// modern makes a complete result of the modern era of the given pairs.
func (s *server) modern(pairs ...any) json.RawMessage {
	return object(append(pairs, "resultType", "complete", "_meta", object(metaServerInfo, s.identity()))...)
}

// list answers tools/list. A cursor is the index of the first tool of its page,
// behind a letter so that it looks as opaque as it is meant to be.
func (s *server) list(m message, modern bool) error {
	var p struct {
		Cursor string `json:"cursor"`
	}
	_ = json.Unmarshal(m.Params, &p)
	if s.lists++; s.opts.Lists > 0 && s.lists > s.opts.Lists {
		return s.out.failure(m.ID, &rpcError{Code: codeBusy, Message: "the tools are listed no more"})
	}
	all := s.listed()
	from := 0
	if p.Cursor != "" && !s.opts.RepeatCursor {
		var err error
		from, err = strconv.Atoi(strings.TrimPrefix(p.Cursor, "c"))
		if err != nil || from < 0 || from > len(all) {
			return s.out.failure(m.ID, &rpcError{Code: codeInvalidParams, Message: fmt.Sprintf("no page starts at cursor %q", p.Cursor)})
		}
	}
	to := len(all)
	if s.opts.PageSize > 0 && from+s.opts.PageSize < to {
		to = from + s.opts.PageSize
	}
	pairs := []any{"tools", array(all[from:to])}
	switch {
	case s.opts.RepeatCursor:
		pairs = append(pairs, "nextCursor", "again")
	case to < len(all):
		pairs = append(pairs, "nextCursor", "c"+strconv.Itoa(to))
	case s.opts.EmptyCursor:
		pairs = append(pairs, "nextCursor", "")
	}
	if modern {
		return s.out.result(m.ID, s.modern(append(pairs, "ttlMs", 0, "cacheScope", "private")...))
	}
	return s.out.result(m.ID, object(pairs...))
}

// listen opens a subscription to changes of the tool list. It has no answer
// until the client cancels it, and then none either.
func (s *server) listen(m message) error {
	var p struct {
		Notifications struct {
			ResourceSubscriptions []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
	}
	_ = json.Unmarshal(m.Params, &p)
	s.mu.Lock()
	full := len(s.listens) >= maxRunning
	if !full {
		s.listens[string(m.ID)] = m.ID
		s.watches[string(m.ID)] = p.Notifications.ResourceSubscriptions
	}
	s.mu.Unlock()
	if full {
		return s.out.failure(m.ID, &rpcError{Code: codeBusy, Message: "too many subscriptions"})
	}
	granted := object("toolsListChanged", true)
	if len(p.Notifications.ResourceSubscriptions) > 0 {
		granted = object("toolsListChanged", true, "resourceSubscriptions", p.Notifications.ResourceSubscriptions)
	}
	return s.out.notify("notifications/subscriptions/acknowledged", object(
		"_meta", object(metaSubscriptionID, m.ID), "notifications", granted))
}

// listChanged tells the client in the way of its era. A legacy client is told
// when it has completed the handshake, a modern one where it listens.
func (s *server) listChanged(modern bool) error {
	return s.changed("notifications/tools/list_changed", modern)
}

// changed is listChanged for any list.
func (s *server) changed(method string, modern bool) error {
	if !modern {
		return s.out.line(object("jsonrpc", "2.0", "method", method))
	}
	s.mu.Lock()
	ids := make([]json.RawMessage, 0, len(s.listens))
	for _, id := range s.listens {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		if err := s.out.notify(method, object("_meta", object(metaSubscriptionID, id))); err != nil {
			return err
		}
	}
	return nil
}

func array(items []json.RawMessage) json.RawMessage {
	size := 2
	for _, i := range items {
		size += len(i) + 1
	}
	buf := append(make([]byte, 0, size), '[')
	for i, item := range items {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, item...)
	}
	return append(buf, ']')
}
