// Package fakeauth is an authorization server and an MCP server under it, for
// tests. It is a fake: it speaks the real protocol and is strict about it, but
// lets in whoever comes.
package fakeauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fake is both servers. What is exported is set before the first request, or
// under [Fake.Change].
type Fake struct {
	// Issuer and Resource change what the metadata say.
	Issuer   func(meta map[string]any)
	Resource func(meta map[string]any)
	// Auth and MCP answer requests in the place of the servers where they return
	// true.
	Auth func(w http.ResponseWriter, r *http.Request) bool
	MCP  func(w http.ResponseWriter, r *http.Request) bool
	// Answer changes what the browser is sent back with.
	Answer func(q url.Values)
	// Lifetime is that of access tokens; 0: they say of none.
	Lifetime time.Duration
	// NoRefresh: there are no refresh tokens.
	NoRefresh bool
	// Need are the scopes that a tool needs beyond "basic".
	Need map[string]string
	// Open: everything but calls is answered without a token.
	Open bool

	auth, mcp *httptest.Server
	mu        sync.Mutex
	clients   map[string]client
	codes     map[string]code
	access    map[string]grant
	refresh   map[string]grant
	counts    map[string]int
}

type client struct {
	secret    string
	redirects []string
}

type code struct {
	client, redirect, challenge, resource string
	scopes                                []string
}

type grant struct {
	client, resource string
	scopes           []string
	until            time.Time
	used             bool // a refresh token that was rotated
}

// Start starts both, until the test ends. Set up changes f first.
func Start(tb testing.TB, setUp func(f *Fake)) *Fake {
	tb.Helper()
	f := &Fake{clients: map[string]client{}, codes: map[string]code{}, access: map[string]grant{}, refresh: map[string]grant{}, counts: map[string]int{}}
	if setUp != nil {
		setUp(f)
	}
	f.auth = httptest.NewServer(http.HandlerFunc(f.serveAuth))
	f.mcp = httptest.NewServer(http.HandlerFunc(f.serveMCP))
	tb.Cleanup(func() {
		f.mcp.CloseClientConnections()
		f.mcp.Close()
		f.auth.CloseClientConnections()
		f.auth.Close()
	})
	return f
}

// URL is the address of the MCP server.
func (f *Fake) URL() string { return f.mcp.URL + "/mcp" }

// AuthURL is the issuer.
func (f *Fake) AuthURL() string { return f.auth.URL }

// Change sets what is exported while requests come.
func (f *Fake) Change(set func(f *Fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set(f)
}

// Count is how often something happened: "register", "authorize", "revoke",
// "token GRANT", "reuse" (of a refresh token), "mcp METHOD", "401", "403".
func (f *Fake) Count(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[what]
}

// Know registers a client by hand.
func (f *Fake) Know(id, secret string, redirects ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients[id] = client{secret, redirects}
}

// Expire ends all access tokens at once, and with "refresh" the refresh tokens.
func (f *Fake) Expire(what ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.access)
	if slices.Contains(what, "refresh") {
		clear(f.refresh)
	}
}

// Tokens are all access tokens that are good.
func (f *Fake) Tokens() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.access))
}

func (f *Fake) count(what string) {
	f.counts[what]++
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, code, why string) {
	reply(w, status, map[string]string{"error": code, "error_description": why})
}

func (f *Fake) serveAuth(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	hook := f.Auth
	f.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		meta := map[string]any{
			"issuer": f.auth.URL, "authorization_endpoint": f.auth.URL + "/authorize", "token_endpoint": f.auth.URL + "/token",
			"registration_endpoint": f.auth.URL + "/register", "revocation_endpoint": f.auth.URL + "/revoke",
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic", "client_secret_post"},
			"authorization_response_iss_parameter_supported": true, "scopes_supported": []string{"basic", "write", "offline_access"},
		}
		if f.Issuer != nil {
			f.Issuer(meta)
		}
		reply(w, http.StatusOK, meta)
	case "/register":
		f.register(w, r)
	case "/authorize":
		f.authorize(w, r)
	case "/token":
		f.token(w, r)
	case "/revoke":
		f.count("revoke")
		delete(f.refresh, r.FormValue("token"))
		delete(f.access, r.FormValue("token"))
		w.WriteHeader(http.StatusOK)
	default:
		http.NotFound(w, r)
	}
}

func (f *Fake) register(w http.ResponseWriter, r *http.Request) {
	f.count("register")
	var req struct {
		Redirects []string `json:"redirect_uris"`
		Type      string   `json:"application_type"`
		Method    string   `json:"token_endpoint_auth_method"`
	}
	if json.NewDecoder(r.Body).Decode(&req) != nil || len(req.Redirects) == 0 || req.Type != "native" {
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", "a native client with a redirect URL is wanted")
		return
	}
	id, secret := "client-"+rand.Text(), ""
	if req.Method != "none" {
		secret = "secret-" + rand.Text()
	}
	f.clients[id] = client{secret, req.Redirects}
	answer := map[string]any{"client_id": id, "redirect_uris": req.Redirects, "token_endpoint_auth_method": req.Method}
	if secret != "" {
		answer["client_secret"] = secret
	}
	reply(w, http.StatusCreated, answer)
}

func (f *Fake) authorize(w http.ResponseWriter, r *http.Request) {
	f.count("authorize")
	q := r.URL.Query()
	c, known := f.clients[q.Get("client_id")]
	redirect, err := url.Parse(q.Get("redirect_uri"))
	if !known || err != nil || len(c.redirects) > 0 && !slices.Contains(c.redirects, q.Get("redirect_uri")) {
		refuse(w, http.StatusBadRequest, "invalid_request", "the client, or where it wants the answer, is not known")
		return
	}
	if q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("resource") == "" {
		refuse(w, http.StatusBadRequest, "invalid_request", "a code with PKCE for a resource is wanted")
		return
	}
	text := "code-" + rand.Text()
	f.codes[text] = code{q.Get("client_id"), q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("resource"), strings.Fields(q.Get("scope"))}
	answer := url.Values{"code": {text}, "state": {q.Get("state")}, "iss": {f.auth.URL}}
	if f.Answer != nil {
		f.Answer(answer)
	}
	redirect.RawQuery = answer.Encode()
	w.Header().Set("Location", redirect.String())
	w.WriteHeader(http.StatusFound)
}

// caller says which client asks; "": none that is known.
func (f *Fake) caller(r *http.Request) string {
	id, secret, ok := r.BasicAuth()
	if ok {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	if c, known := f.clients[id]; known && c.secret == secret {
		return id
	}
	return ""
}

func (f *Fake) token(w http.ResponseWriter, r *http.Request) {
	kind := r.FormValue("grant_type")
	f.count("token " + kind)
	id := f.caller(r)
	if id == "" {
		refuse(w, http.StatusUnauthorized, "invalid_client", "no such client")
		return
	}
	switch kind {
	case "authorization_code":
		c, ok := f.codes[r.FormValue("code")]
		delete(f.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if !ok || c.client != id || c.redirect != r.FormValue("redirect_uri") || c.resource != r.FormValue("resource") ||
			c.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
			refuse(w, http.StatusBadRequest, "invalid_grant", "the code is not for this")
			return
		}
		f.give(w, grant{client: id, resource: c.resource, scopes: c.scopes}, !f.NoRefresh)
	case "refresh_token":
		text := r.FormValue("refresh_token")
		g, ok := f.refresh[text]
		switch {
		case ok && g.used:
			// Whoever uses one twice may have stolen it: nobody keeps anything.
			f.count("reuse")
			clear(f.refresh)
			clear(f.access)
			fallthrough
		case !ok, g.client != id, g.resource != r.FormValue("resource"):
			refuse(w, http.StatusBadRequest, "invalid_grant", "the refresh token is not good")
			return
		}
		g.used = true
		f.refresh[text] = g
		g.used = false
		f.give(w, g, true)
	case "client_credentials":
		f.give(w, grant{client: id, resource: r.FormValue("resource"), scopes: strings.Fields(r.FormValue("scope"))}, false)
	default:
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", kind)
	}
}

func (f *Fake) give(w http.ResponseWriter, g grant, again bool) {
	text := "access-" + rand.Text()
	answer := map[string]any{"access_token": text, "token_type": "bearer"}
	g.until = time.Now().Add(time.Hour)
	if f.Lifetime > 0 {
		answer["expires_in"] = int(f.Lifetime / time.Second)
		g.until = time.Now().Add(f.Lifetime)
	}
	if len(g.scopes) > 0 {
		answer["scope"] = strings.Join(g.scopes, " ")
	}
	f.access[text] = g
	if again {
		next := "refresh-" + rand.Text()
		f.refresh[next] = g
		answer["refresh_token"] = next
	}
	reply(w, http.StatusOK, answer)
}

func (f *Fake) serveMCP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	hook := f.MCP
	f.mu.Unlock()
	if hook != nil && hook(w, r) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
		meta := map[string]any{"resource": f.mcp.URL + "/mcp", "authorization_servers": []string{f.auth.URL}, "scopes_supported": []string{"basic"}}
		if f.Resource != nil {
			f.Resource(meta)
		}
		reply(w, http.StatusOK, meta)
		return
	}
	if r.URL.Path != "/mcp" || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &req) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	f.count("mcp " + req.Method)
	if !f.Open || req.Method == "tools/call" {
		if !f.allowed(w, r, req.Method, req.Params.Name) {
			return
		}
	}
	f.speak(w, r, req.ID, req.Method, req.Params.Name)
}

// allowed holds a request to its token.
func (f *Fake) allowed(w http.ResponseWriter, r *http.Request, method, tool string) bool {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	g, ok := f.access[token]
	meta := `resource_metadata="` + f.mcp.URL + `/.well-known/oauth-protected-resource/mcp"`
	if !ok || time.Now().After(g.until) || g.resource != f.mcp.URL+"/mcp" && g.resource != f.mcp.URL {
		f.count("401")
		w.Header().Set("WWW-Authenticate", `Basic realm="x", Bearer error="invalid_token", scope="basic", `+meta)
		refuse(w, http.StatusUnauthorized, "invalid_token", "log in")
		return false
	}
	if need := f.Need[tool]; method == "tools/call" && need != "" && !slices.Contains(g.scopes, need) {
		f.count("403")
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+need+`", `+meta)
		refuse(w, http.StatusForbidden, "insufficient_scope", "more is needed")
		return false
	}
	return true
}

// speak is the MCP server: its tools say with which token they were called.
func (f *Fake) speak(w http.ResponseWriter, r *http.Request, id json.RawMessage, method, tool string) {
	answer := func(result any) {
		reply(w, http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
	}
	switch method {
	case "initialize":
		answer(map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "fakeauth", "version": "1"}})
	case "tools/list":
		schema := map[string]any{"type": "object"}
		answer(map[string]any{"tools": []any{map[string]any{"name": "read", "inputSchema": schema}, map[string]any{"name": "write", "inputSchema": schema}}})
	case "tools/call":
		answer(map[string]any{"content": []any{map[string]any{"type": "text", "text": fmt.Sprintf("%s was called with %s", tool, r.Header.Get("Authorization"))}}})
	case "ping":
		answer(map[string]any{})
	default:
		if len(id) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		reply(w, http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": -32601, "message": "no such method"}})
	}
}

// Visit is the browser: it opens an address and goes where it is sent. The error
// says what it saw in the end. It shares no connection with others: their servers
// come and go at the same ports.
func Visit(address string) error {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	return nil
}
