package remote

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// clerk is an Authorizer that hands out its tokens one after the other.
type clerk struct {
	mu      sync.Mutex
	tokens  []string
	refused []string      // the tokens with which the server was not content
	err     error         // what it says when there is no other token; nil: nothing
	out     chan struct{} // told of each refusal for which there is none; nil: nobody is
}

func (c *clerk) Token(context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tokens) == 0 {
		return "", c.err
	}
	return c.tokens[0], nil
}

func (c *clerk) LoggedIn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tokens) > 0
}

func (c *clerk) Taken(string) {}

func (c *clerk) Refused(_ context.Context, token string, _ int, _ http.Header) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, token)
	if len(c.tokens) > 0 && c.tokens[0] == token {
		c.tokens = c.tokens[1:]
	}
	if len(c.tokens) > 0 {
		return true, nil
	}
	if c.out != nil {
		c.out <- struct{}{}
	}
	return false, c.err
}

// authorized makes a link to a fake that takes only requests that fit.
func authorized(t *testing.T, c *clerk, s *fakeServer, fits func(*http.Request) int) *talk {
	t.Helper()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := fits(r); status != 0 {
			w.WriteHeader(status)
			return
		}
		s.ServeHTTP(w, r)
	})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return linkWith(t, c, server.URL+"/mcp", nil)
}

func linkWith(t *testing.T, c *clerk, address string, headers map[string]string) *talk {
	t.Helper()
	l, err := NewLauncher(Options{Parse: parse, Reconnect: time.Millisecond, hold: patience, deaf: patience, Authorize: func(*messages.ServerSpec) Authorizer { return c }})
	if err != nil {
		t.Fatal(err)
	}
	ear := &earTrumpet{make(chan heard, 4096)}
	k, err := l.Launch(&messages.ServerSpec{Name: "x", Transport: messages.TransportHTTP, URL: address, Headers: headers}, ear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Release()
		l.Close()
	})
	return &talk{k, t, ear}
}

func bearer(want string, otherwise int) func(*http.Request) int {
	return func(r *http.Request) int {
		if r.Header.Get("Authorization") != "Bearer "+want {
			return otherwise
		}
		return 0
	}
}

// A request is sent again with the next token, whole, and all later ones with it.
func TestTokens(t *testing.T) {
	c := &clerk{tokens: []string{"old", "new"}}
	s := newFake()
	k := authorized(t, c, s, bearer("new", http.StatusUnauthorized))
	k.greet()
	k.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}`)
	if h := k.next("frame"); string(h.f.Result) != `{"ok":"tools/call"}` {
		t.Errorf("%+v", h)
	}
	k.CloseInput()
	k.next("eof")
	for _, a := range s.saw(t, 5, func(ask) bool { return true }) { // the greeting, that it was heard, the stream, the call, the end
		if a.header.Get("Authorization") != "Bearer new" {
			t.Errorf("%s %s has %q", a.http, a.method, a.header.Get("Authorization"))
		}
	}
	if len(c.refused) != 1 || c.refused[0] != "old" {
		t.Errorf("%q", c.refused)
	}
}

// Whoever has no other token says why, and what to do.
func TestNoTokens(t *testing.T) {
	why := &Error{Status: http.StatusUnauthorized, Said: "it wants a login", Advice: "log in"}
	k := authorized(t, &clerk{err: why}, newFake(), bearer("x", http.StatusUnauthorized))
	k.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	h := k.next("eof")
	var f *Error
	if !errors.As(h.err, &f) || f.Evidence().Advice != "log in" || f.Evidence().HTTPStatus != http.StatusUnauthorized {
		t.Errorf("%v", h.err)
	}
}

// A call that is refused in the middle of things was not carried out, and is not
// taken for one that was lost.
func TestLoginThatEnds(t *testing.T) {
	c := &clerk{tokens: []string{"one"}, err: &Error{Status: http.StatusUnauthorized, Said: "it wants a login"}}
	s := newFake()
	s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	k := authorized(t, c, s, bearer("one", http.StatusUnauthorized))
	k.greet()
	k.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}`)
	var f *Error
	if h := k.next("broken"); h.id != "2" || !errors.As(h.err, &f) || f.Said != "it wants a login" {
		t.Errorf("%+v", h)
	}
	// The link stays: each further request says the same, until somebody logs in.
	k.say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a"}}`)
	if h := k.next("broken"); h.id != "3" || !errors.As(h.err, &f) || f.Said != "it wants a login" {
		t.Errorf("%+v", h)
	}
}

// The same where only the authorization server is away: nobody need ask what the call
// may have done.
func TestCallWithoutATokenIsNotRun(t *testing.T) {
	for _, why := range []*Error{{Cause: syscall.ECONNREFUSED}, {Status: http.StatusUnauthorized, Said: "it wants a login"}} {
		c := &clerk{tokens: []string{"one"}, err: why}
		s := newFake()
		s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
		k := authorized(t, c, s, bearer("one", http.StatusUnauthorized))
		k.greet()
		k.say(callLine)
		var f *Error
		if h := k.next("broken"); h.id != "7" || !errors.As(h.err, &f) || !f.NotRun || f.Status != why.Status {
			t.Errorf("%+v", h)
		}
		if why.NotRun {
			t.Error("the error of somebody else was changed")
		}
	}
}

// A call that the server has taken may have been carried out, though the rest of its
// stream cannot be asked for without a token.
func TestStreamThatDoesNotGoOnWithoutAToken(t *testing.T) {
	c := &clerk{tokens: []string{"one"}, err: &Error{Cause: syscall.ECONNREFUSED}}
	s := newFake()
	s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) {
		events(w, "id: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
	}
	k := authorized(t, c, s, func(r *http.Request) int {
		if r.Header.Get("Last-Event-ID") != "" {
			return http.StatusUnauthorized
		}
		return 0
	})
	k.greet()
	k.say(callLine)
	k.next("frame")
	var f *Error
	if h := k.next("broken"); h.id != "7" || !errors.As(h.err, &f) || f.NotRun || !errors.Is(h.err, syscall.ECONNREFUSED) {
		t.Errorf("%+v", h)
	}
}

// What a server says on its own is heard again once somebody has logged in again.
func TestListeningAfterALoginThatEnded(t *testing.T) {
	c := &clerk{tokens: []string{"one"}, err: &Error{Status: http.StatusUnauthorized, Said: "it wants a login"}, out: make(chan struct{}, 100)}
	s := newFake()
	opened, over := make(chan struct{}), make(chan struct{})
	var streams atomic.Int64
	s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
		if streams.Add(1) == 1 {
			events(w, ": hello\n\n")
			close(opened)
			<-over
			return
		}
		events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		<-r.Context().Done()
	}
	wait := func(event chan struct{}) {
		t.Helper()
		select {
		case <-event:
		case <-time.After(patience):
			t.Fatal("nothing happened to the stream")
		}
	}
	var valid atomic.Value
	valid.Store("one")
	k := authorized(t, c, s, func(r *http.Request) int { return bearer(valid.Load().(string), http.StatusUnauthorized)(r) })
	k.greet()
	wait(opened)
	valid.Store("two")
	close(over)
	wait(c.out)
	c.mu.Lock()
	c.tokens = []string{"two"}
	c.mu.Unlock()
	k.next("unheard")
	if h := k.next("frame"); h.f.Method != methodListChanged {
		t.Errorf("%+v", h)
	}
}

// So it is where nobody had: what refused it then need not be the server itself.
func TestListeningWhereNobodyHasLoggedIn(t *testing.T) {
	s := newFake()
	s.on[http.MethodGet] = func(w http.ResponseWriter, _ *http.Request) { events(w, ": hello\n\n") }
	var streams atomic.Int64
	k := authorized(t, &clerk{}, s, func(r *http.Request) int {
		if r.Method == http.MethodGet && streams.Add(1) == 2 {
			return http.StatusUnauthorized
		}
		return 0
	})
	k.greet()
	k.next("unheard")
	if n := streams.Load(); n < 3 {
		t.Errorf("it was asked for %d times", n)
	}
}

// A token that is never right is not tried for ever.
func TestTokensThatAreNeverRight(t *testing.T) {
	c := &clerk{tokens: []string{"a", "b", "c", "d", "e", "f", "g", "h"}}
	k := authorized(t, c, newFake(), bearer("x", http.StatusUnauthorized))
	k.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	var f *Error
	if h := k.next("eof"); !errors.As(h.err, &f) || f.Status != http.StatusUnauthorized {
		t.Errorf("%v", h.err)
	}
	if len(c.refused) > 3 {
		t.Errorf("%q", c.refused)
	}
}

// One tool that needs more leaves the others usable.
func TestToolThatNeedsMore(t *testing.T) {
	c := &clerk{tokens: []string{"one"}}
	s := newFake()
	s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	k := authorized(t, c, s, bearer("one", http.StatusUnauthorized))
	k.greet()
	c.mu.Lock()
	c.err = &Error{Status: http.StatusForbidden, Said: "it wants further scopes"}
	c.mu.Unlock()
	k.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}`)
	var f *Error
	if h := k.next("broken"); h.id != "2" || !errors.As(h.err, &f) || f.Said != "it wants further scopes" {
		t.Errorf("%+v", h)
	}
	c.mu.Lock()
	c.tokens, c.err = []string{"one"}, nil
	c.mu.Unlock()
	k.say(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	if h := k.next("frame"); h.id != "3" {
		t.Errorf("%+v", h)
	}
}

// A header that the user configured is theirs.
func TestOwnAuthorization(t *testing.T) {
	c := &clerk{tokens: []string{"ours"}}
	s := newFake()
	server := httptest.NewServer(s)
	defer server.Close()
	k := linkWith(t, c, server.URL+"/mcp", map[string]string{"authorization": "Bearer theirs"})
	k.greet()
	for _, a := range s.saw(t, 2, func(a ask) bool { return a.http == http.MethodPost }) {
		if a.header.Get("Authorization") != "Bearer theirs" {
			t.Errorf("%q", a.header.Get("Authorization"))
		}
	}
}

// A token goes to the origin that it is for, and nowhere else.
func TestTokensStayAtTheirOrigin(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	note := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Host+" "+r.Header.Get("Authorization"))
	}
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { note(r) }))
	defer evil.Close()
	honest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, evil.URL+"/mcp", http.StatusTemporaryRedirect)
	}))
	defer honest.Close()
	k := linkWith(t, &clerk{tokens: []string{"s3cret"}}, honest.URL+"/mcp", nil)
	k.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	k.next("eof")
	// From http to https of the same host a request is followed, but its token
	// is not.
	plain, err := url.Parse("http://x.example/mcp")
	if err != nil {
		t.Fatal(err)
	}
	secure := *plain
	secure.Scheme = "https"
	first := (&http.Request{Method: http.MethodPost, URL: plain}).WithContext(context.WithValue(t.Context(), ours{}, true))
	for _, configured := range []bool{false, true} {
		want := ""
		if configured {
			first, want = first.WithContext(t.Context()), "Bearer s3cret"
		}
		next := &http.Request{Method: http.MethodPost, URL: &secure, Header: http.Header{"Authorization": {"Bearer s3cret"}}}
		if err := sameOrigin(next, []*http.Request{first}); err != nil || next.Header.Get("Authorization") != want {
			t.Errorf("configured %v: %v, %q", configured, err, next.Header.Get("Authorization"))
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 0 {
		t.Errorf("%q", seen)
	}
}
