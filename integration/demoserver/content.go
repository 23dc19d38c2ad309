package demoserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// content is what a server has beside tools, where the options ask for it. All is
// guarded by the server's mu.
type content struct {
	touched    map[string]int  // how often a resource was
	subscribed map[string]bool // by a legacy client
	added      int             // resources that came at run time
	cursors    int             // pages that were given out, for endless ones
}

// longURI is the length of the one that an option adds.
const longURI = 1 << 20

const codeResourceNotFound = -32002 // legacy

// contentTools change what there is to see and tell of it.
var contentTools = []tool{
	{
		name: "touch", description: "Changes a resource and announces that to who subscribed to it.",
		schema:      `{"type":"object","properties":{"uri":{"type":"string"},"count":{"type":"integer","minimum":1,"maximum":100000,"default":1}},"required":["uri"]}`,
		annotations: additive, quick: touch,
	},
	{
		name: "grow", description: "Adds a resource and announces the changed list; with idle only announces it.",
		schema:      `{"type":"object","properties":{"idle":{"type":"boolean"},"list":{"type":"string","enum":["resources","prompts"],"default":"resources"}}}`,
		annotations: additive, quick: grow,
	},
	{name: "defer", description: "Answers with a task.", annotations: pure, quick: deferred},
	{
		name: "link", description: "Answers with a link to a resource, listed or not.",
		schema:      `{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}`,
		annotations: pure, quick: link,
	},
}

// deferred answers with a task, where the client takes one.
func deferred(s *server, c *call) (json.RawMessage, *rpcError) {
	var p struct {
		Meta struct {
			Caps struct {
				Extensions map[string]json.RawMessage `json:"extensions"`
			} `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(c.params, &p)
	if p.Meta.Caps.Extensions["io.modelcontextprotocol/tasks"] == nil {
		return c.text("the client takes no tasks"), nil
	}
	return object("resultType", "task", "taskId", s.opts.Name+"-1", "status", "working", "pollInterval", json.RawMessage("1.50")), nil
}

func touch(s *server, c *call) (json.RawMessage, *rpcError) {
	a := struct {
		URI   string
		Count int
	}{Count: 1}
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	for range a.Count {
		s.mu.Lock()
		s.content.touched[a.URI]++
		legacy := s.content.subscribed[a.URI]
		var ids []json.RawMessage
		for key, id := range s.listens {
			if slices.Contains(s.watches[key], a.URI) {
				ids = append(ids, id)
			}
		}
		s.mu.Unlock()
		const method = "notifications/resources/updated"
		if legacy {
			s.complain(s.out.notify(method, object("uri", a.URI)))
		}
		for _, id := range ids {
			s.complain(s.out.notify(method, object("uri", a.URI, "_meta", object(metaSubscriptionID, id))))
		}
	}
	return c.text("touched " + a.URI), nil
}

func grow(s *server, c *call) (json.RawMessage, *rpcError) {
	a := struct {
		Idle bool
		List string
	}{List: "resources"}
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	if !a.Idle {
		s.mu.Lock()
		s.content.added++
		s.mu.Unlock()
	}
	s.complain(s.changed("notifications/"+a.List+"/list_changed", c.modern))
	return c.text("grown"), nil
}

func link(_ *server, c *call) (json.RawMessage, *rpcError) {
	var a struct{ URI string }
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	return c.result("content", array([]json.RawMessage{object("type", "resource_link", "uri", a.URI, "name", "linked")})), nil
}

// contentOf answers what belongs to resources, prompts and completion.
func (s *server) contentOf(m message, modern bool) error {
	switch m.Method {
	case "resources/list":
		return s.listResources(m, modern)
	case "resources/templates/list":
		return s.page(m, modern, "resourceTemplates", []json.RawMessage{
			object("uriTemplate", s.uri("item/{id}"), "name", "item", "mimeType", "text/plain"),
		})
	case "resources/read":
		return s.readResource(m, modern)
	case "resources/subscribe", "resources/unsubscribe":
		if modern {
			return s.unknown(m)
		}
		s.mu.Lock()
		s.content.subscribed[member(m.Params, "uri")] = m.Method == "resources/subscribe"
		s.mu.Unlock()
		return s.out.result(m.ID, json.RawMessage(`{}`))
	case "prompts/list":
		return s.page(m, modern, "prompts", s.prompts())
	case "prompts/get":
		return s.getPrompt(m, modern)
	case "completion/complete":
		return s.complete(m, modern)
	case "tasks/get", "tasks/update", "tasks/cancel":
		id := member(m.Params, "taskId")
		if !modern || id != s.opts.Name+"-1" {
			return s.out.failure(m.ID, &rpcError{Code: codeInvalidParams, Message: "unknown task: " + id})
		}
		var p struct {
			InputResponses json.RawMessage `json:"inputResponses"`
		}
		_ = json.Unmarshal(m.Params, &p)
		if p.InputResponses == nil {
			p.InputResponses = json.RawMessage("null")
		}
		return s.out.result(m.ID, s.modern("taskId", id, "status", m.Method, "given", p.InputResponses))
	}
	return s.unknown(m)
}

// uri is one of the server's own, unless all servers are to have the same.
func (s *server) uri(path string) string {
	if s.opts.SameURIs {
		return "demo://same/" + path
	}
	return "demo://" + s.opts.Name + "/" + path
}

func (s *server) listResources(m message, modern bool) error {
	s.mu.Lock()
	added := s.content.added
	s.content.cursors++
	cursor := s.content.cursors
	s.mu.Unlock()
	if s.opts.EndlessCursors {
		return s.done(m, modern, "resources", array([]json.RawMessage{object("uri", s.uri("page/"+strconv.Itoa(cursor)), "name", "p")}), "nextCursor", strconv.Itoa(cursor))
	}
	list := []json.RawMessage{
		object("uri", s.uri("static"), "name", "static", "mimeType", "text/plain", "x-vendor", json.RawMessage(`{"kept":1.0e2}`)),
		object("uri", s.uri("binary"), "name", "binary", "mimeType", "application/octet-stream"),
	}
	for i := range s.opts.Resources + added {
		list = append(list, object("uri", s.uri(fmt.Sprintf("item/%06d", i)), "name", "item"))
	}
	if s.opts.LongURI {
		list = append(list, object("uri", s.uri(strings.Repeat("x", longURI)), "name", "long"))
	}
	return s.page(m, modern, "resources", list)
}

// page answers a list from where the cursor says.
func (s *server) page(m message, modern bool, name string, all []json.RawMessage) error {
	from := 0
	if c := member(m.Params, "cursor"); c != "" {
		var err error
		if from, err = strconv.Atoi(strings.TrimPrefix(c, "c")); err != nil || from < 0 || from > len(all) {
			return s.out.failure(m.ID, &rpcError{Code: codeInvalidParams, Message: fmt.Sprintf("no page starts at cursor %q", c)})
		}
	}
	to := len(all)
	if s.opts.PageSize > 0 {
		to = min(to, from+s.opts.PageSize)
	}
	if to < len(all) {
		return s.done(m, modern, name, array(all[from:to]), "nextCursor", "c"+strconv.Itoa(to))
	}
	return s.done(m, modern, name, array(all[from:to]))
}

// done answers with these pairs in the era of the request.
func (s *server) done(m message, modern bool, pairs ...any) error {
	if modern {
		return s.out.result(m.ID, s.modern(append(pairs, "ttlMs", 0, "cacheScope", "private")...))
	}
	return s.out.result(m.ID, object(pairs...))
}

func (s *server) readResource(m message, modern bool) error {
	uri := member(m.Params, "uri")
	path, own := strings.CutPrefix(uri, s.uri(""))
	if !own {
		path, own = strings.CutPrefix(uri, "hidden://"+s.opts.Name+"/") // never listed
	}
	switch {
	case !own:
		code := codeResourceNotFound
		if modern {
			code = codeInvalidParams
		}
		return s.out.failure(m.ID, &rpcError{Code: code, Message: "resource not found", Data: map[string]any{"uri": uri}})
	case path == "binary":
		return s.done(m, modern, "contents", array([]json.RawMessage{object("uri", uri, "mimeType", "application/octet-stream", "blob", "AAEC")}))
	}
	s.mu.Lock()
	text := fmt.Sprintf("%s of %s, touched %d times", path, s.opts.Name, s.content.touched[uri])
	s.mu.Unlock()
	if len(text) > 1000 {
		text = text[:1000]
	}
	return s.done(m, modern, "contents", array([]json.RawMessage{object("uri", uri, "mimeType", "text/plain", "text", text)}))
}

func (s *server) prompts() []json.RawMessage {
	return []json.RawMessage{
		object("name", "greet", "title", "Greeting", "arguments", json.RawMessage(`[{"name":"who","required":true}]`), "x-vendor", json.RawMessage(`1.50`)),
		object("name", "odd name: \"<ü>\"/.", "description", "a prompt with an odd name"),
	}
}

func (s *server) getPrompt(m message, modern bool) error {
	var p struct {
		Name      string
		Arguments map[string]string
	}
	_ = json.Unmarshal(m.Params, &p)
	switch p.Name {
	case "greet":
		if p.Arguments["who"] == "" {
			return s.out.failure(m.ID, &rpcError{Code: codeInvalidParams, Message: "greet: who is missing"})
		}
		return s.done(m, modern, "messages", array([]json.RawMessage{
			object("role", "user", "content", object("type", "text", "text", "Greet "+p.Arguments["who"]+" from "+s.opts.Name)),
			object("role", "user", "content", object("type", "resource", "resource", object("uri", "hidden://"+s.opts.Name+"/greeting", "text", "hello"))),
		}))
	case "odd name: \"<ü>\"/.":
		return s.done(m, modern, "messages", array([]json.RawMessage{object("role", "user", "content", object("type", "text", "text", "odd"))}))
	}
	return s.out.failure(m.ID, &rpcError{Code: codeInvalidParams, Message: "unknown prompt: " + p.Name})
}

func (s *server) complete(m message, modern bool) error {
	var p struct {
		Ref      struct{ Type, Name, URI string }
		Argument struct{ Name, Value string }
	}
	_ = json.Unmarshal(m.Params, &p)
	value := p.Argument.Value + "-" + p.Ref.Type + "-" + s.opts.Name
	if p.Ref.Type == "ref/prompt" && p.Ref.Name != "greet" || p.Ref.Type == "ref/resource" && p.Ref.URI != s.uri("item/{id}") {
		return s.out.failure(m.ID, &rpcError{Code: codeInvalidParams, Message: "nothing to complete: " + p.Ref.Name + p.Ref.URI})
	}
	return s.done(m, modern, "completion", object("values", []string{value}, "total", 1, "hasMore", false))
}

// member is a string of an object, "" where there is none.
func member(params json.RawMessage, name string) string {
	var all map[string]json.RawMessage
	var s string
	_ = json.Unmarshal(params, &all)
	_ = json.Unmarshal(all[name], &s)
	return s
}
