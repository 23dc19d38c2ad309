// Package fakeregistry is a fake for tests: a small MCP registry that speaks
// the published API v0.1 over HTTP, with pages, ETags, search and states.
package fakeregistry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Entry is one version of a server.
type Entry struct {
	Server        map[string]any // server.json; name, description and version at least
	Status        string         // active where it is ""
	StatusMessage string
	UpdatedAt     time.Time
	Latest        bool
}

// Server makes an entry with one npm package, active and latest.
func Server(name, version, description, npmPackage string) Entry {
	return Entry{Latest: true, UpdatedAt: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), Server: map[string]any{
		"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		"name":    name, "version": version, "description": description,
		"packages": []any{map[string]any{
			"registryType": "npm", "identifier": npmPackage, "version": version, "transport": map[string]any{"type": "stdio"},
		}},
	}}
}

// Registry is a running fake.
type Registry struct {
	*httptest.Server
	mu       sync.Mutex
	entries  []Entry
	requests []string // "GET /v0.1/servers?…", with " if-none-match" where there was one
	answer   http.HandlerFunc
}

// Start runs a registry with these entries until the test ends.
func Start(t testing.TB, entries ...Entry) *Registry {
	r := &Registry{entries: entries}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v0.1/servers", r.list)
	mux.HandleFunc("GET /v0.1/servers/{name}/versions", r.versions)
	mux.HandleFunc("GET /v0.1/servers/{name}/versions/{version}", r.version)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		line := req.Method + " " + req.URL.RequestURI()
		if req.Header.Get("If-None-Match") != "" {
			line += " if-none-match"
		}
		r.requests = append(r.requests, line)
		instead := r.answer
		r.mu.Unlock()
		if instead != nil {
			instead(w, req)
			return
		}
		mux.ServeHTTP(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// Instead answers every request from now on in another way; nil: as before.
func (r *Registry) Instead(h http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = h
}

// Set replaces the entries.
func (r *Registry) Set(entries ...Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = entries
}

// Requests returns what was asked so far.
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.requests...)
}

func (r *Registry) all() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries
}

func (e *Entry) text(key string) string { s, _ := e.Server[key].(string); return s }

func (e *Entry) body() map[string]any {
	status := e.Status
	if status == "" {
		status = "active"
	}
	meta := map[string]any{"status": status, "publishedAt": e.UpdatedAt, "updatedAt": e.UpdatedAt, "statusChangedAt": e.UpdatedAt, "isLatest": e.Latest}
	if e.StatusMessage != "" {
		meta["statusMessage"] = e.StatusMessage
	}
	return map[string]any{"server": e.Server, "_meta": map[string]any{"io.modelcontextprotocol.registry/official": meta}}
}

func (r *Registry) list(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if q.Get("limit") == "" {
		limit, err = 30, nil
	}
	const most = 100
	if err != nil || limit < 1 || limit > most {
		fail(w, http.StatusUnprocessableEntity, "limit must be from 1 to 100")
		return
	}
	var since time.Time
	if text := q.Get("updated_since"); text != "" {
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			fail(w, http.StatusBadRequest, "Invalid updated_since format")
			return
		}
	}
	servers, next, after := []any{}, "", q.Get("cursor")
	reached := after == ""
	for _, e := range r.all() {
		id := e.text("name") + ":" + e.text("version")
		if !reached {
			reached = id == after
			continue
		}
		deletedToo := q.Get("include_deleted") == "true" || !since.IsZero()
		switch {
		case e.Status == "deleted" && !deletedToo, q.Get("version") == "latest" && !e.Latest, e.UpdatedAt.Before(since),
			!strings.Contains(strings.ToLower(e.text("name")), strings.ToLower(q.Get("search"))):
			continue
		}
		if len(servers) == limit {
			next = lastID(servers)
			break
		}
		servers = append(servers, e.body())
	}
	meta := map[string]any{"count": len(servers)}
	if next != "" {
		meta["nextCursor"] = next
	}
	reply(w, req, map[string]any{"servers": servers, "metadata": meta})
}

func lastID(servers []any) string {
	s := servers[len(servers)-1].(map[string]any)["server"].(map[string]any)
	e := Entry{Server: s}
	return e.text("name") + ":" + e.text("version")
}

func (r *Registry) versions(w http.ResponseWriter, req *http.Request) {
	name := req.PathValue("name")
	servers := []any{}
	for _, e := range r.all() {
		if e.text("name") == name && (e.Status != "deleted" || req.URL.Query().Get("include_deleted") == "true") {
			servers = append(servers, e.body())
		}
	}
	if len(servers) == 0 {
		fail(w, http.StatusNotFound, "Server not found")
		return
	}
	reply(w, req, map[string]any{"servers": servers, "metadata": map[string]any{"count": len(servers)}})
}

func (r *Registry) version(w http.ResponseWriter, req *http.Request) {
	for _, e := range r.all() {
		wanted := e.text("version") == req.PathValue("version") || req.PathValue("version") == "latest" && e.Latest
		if e.text("name") == req.PathValue("name") && wanted && (e.Status != "deleted" || req.URL.Query().Get("include_deleted") == "true") {
			reply(w, req, e.body())
			return
		}
	}
	fail(w, http.StatusNotFound, "Server not found")
}

func reply(w http.ResponseWriter, req *http.Request, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("ETag", tag)
	if req.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a client that went away is the client's business
}

func fail(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(code), "status": code, "detail": message})
}
