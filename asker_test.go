package metamcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/oauth/fakeauth"
	"github.com/metamcp/metamcp/integration/secrets"
	"github.com/metamcp/metamcp/integration/testkit"
)

// askedFor is a value that a user enters on a page.
const askedFor = "sk_live_0123456789abcdefABCDEF"

// visit enters value in every field of a page, or, where that is "", declines.
func visit(ctx context.Context, address, value string) error {
	values := func(string) string { return value }
	if value == "" {
		values = nil
	}
	_, err := testkit.AnswerPage(ctx, address, "", values)
	return err
}

// user answers URL elicitations and goes to their addresses.
type user struct {
	t      testing.TB
	action string // "": accept
	// browse does what the user does there, on a goroutine of its own.
	browse func(address string)
	asked  atomic.Int32
	work   sync.WaitGroup
}

func (u *user) reply(q rpcLine) string {
	var p struct{ Mode, URL, Message, ElicitationID string }
	if err := json.Unmarshal(q.Params, &p); err != nil || q.Method != "elicitation/create" || p.Mode != "url" || p.Message == "" {
		u.t.Errorf("asked for %s %s", q.Method, q.Params)
	}
	u.asked.Add(1)
	if u.action != "" {
		return `"result":{"action":"` + u.action + `"}`
	}
	if u.browse != nil {
		u.work.Go(func() { u.browse(p.URL) })
	}
	return `"result":{"action":"accept"}`
}

// enter is a user who enters a value.
func enter(t testing.TB, value string) *user {
	u := &user{t: t}
	u.browse = func(address string) {
		if err := visit(context.Background(), address, value); err != nil {
			t.Error(err)
		}
	}
	return u
}

const urlCapability = `{"elicitation":{"url":{}}}`

// openWithoutSecret is an engine with a server that names a secret which is not
// stored.
func openWithoutSecret(t *testing.T, settings map[string]any) (e *metamcp.Engine, store *secrets.Store) {
	t.Helper()
	dir := t.TempDir()
	cfg := children(map[string][]string{"x": nil}, settings)
	env := cfg["mcpServers"].(map[string]any)["x"].(map[string]any)["env"].(map[string]string)
	env["API_KEY"] = "${secret:ASKED_KEY}"
	return openConfig(t, dir, cfg), secrets.New(filepath.Join(dir, ".metamcp"))
}

// noKeyring makes a session without one.
func noKeyring(t *testing.T) {
	t.Helper()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
}

var ways = []struct {
	name   string
	modern bool
	front  string
}{{"legacy", false, ""}, {"modern", true, ""}, {"legacy over HTTP", false, "http"}, {"modern over HTTP", true, "http"}}

// A call to a server that lacks a secret waits until its user has entered it, in all
// eras and over all ways; what was entered is in no message.
func TestCallWaitsForASecret(t *testing.T) {
	noKeyring(t)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			e, store := openWithoutSecret(t, nil)
			u := enter(t, askedFor)
			defer u.work.Wait()
			c := connectClient(t, e, &asked{caps: urlCapability, modern: way.modern, reply: u.reply, url: fronts[way.front](t, e)})
			l := c.call("x", "echo", `{"text":"hello"}`)
			if got := string(l.Result); !strings.Contains(got, "hello") || strings.Contains(got, "isError\":true") {
				t.Errorf("%s %s", l.Result, l.Error)
			}
			if value, err := store.Get("ASKED_KEY"); value != askedFor || err != nil {
				t.Errorf("stored is %q, %v", value, err)
			}
			if n := u.asked.Load(); n != 1 {
				t.Errorf("the user was asked %d times", n)
			}
			if l := c.call("x", "echo", `{"text":"`+askedFor+`"}`); strings.Contains(string(l.Result), askedFor) {
				t.Errorf("the scrubber does not know it: %s", l.Result)
			}
			if way.name == "legacy" && len(c.notified("notifications/elicitation/complete")) != 1 {
				t.Error("the client does not hear that it is complete")
			}
		})
	}
}

// Who declines, in the client or on the page, and who cannot be asked, gets the
// error that says how to store the secret.
func TestCallWithoutTheSecret(t *testing.T) {
	noKeyring(t)
	for _, way := range ways {
		for what, u := range map[string]*user{"declines": {t: t, action: "decline"}, "cancels": {t: t, action: "cancel"}, "declines there": enter(t, ""), "cannot be asked": nil} {
			t.Run(way.name+" "+what, func(t *testing.T) {
				e, store := openWithoutSecret(t, nil)
				c := &asked{caps: urlCapability, modern: way.modern, url: fronts[way.front](t, e)}
				if u == nil {
					c.caps = `{"elicitation":{}}`
				} else {
					defer u.work.Wait()
					c.reply = u.reply
				}
				c = connectClient(t, e, c)
				text := textIn(t, c.call("x", "echo", `{"text":"hello"}`))
				if !strings.Contains(text, "metamcp secrets set ASKED_KEY") || (u != nil) != strings.Contains(text, "declined") {
					t.Errorf("it says %s", text)
				}
				if _, err := store.Get("ASKED_KEY"); !errors.Is(err, secrets.ErrNotFound) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// Where clients are elsewhere, a page of the loopback is not offered; below a public
// URL it is.
func TestPagesForClientsElsewhere(t *testing.T) {
	noKeyring(t)
	e, _ := openWithoutSecret(t, map[string]any{"http": map[string]any{"allowedHosts": []string{"mcp.example.com"}}})
	u := enter(t, askedFor)
	c := connectClient(t, e, &asked{caps: urlCapability, reply: u.reply, url: fronts["http"](t, e)})
	if text := textIn(t, c.call("x", "echo", `{"text":"hello"}`)); !strings.Contains(text, "metamcp secrets set ASKED_KEY") || u.asked.Load() != 0 {
		t.Errorf("asked %d times: %s", u.asked.Load(), text)
	}

	// The proxy of the public URL is the front itself here.
	public := "http://localhost"
	e, store := openWithoutSecret(t, map[string]any{"http": map[string]any{"allowedHosts": []string{"mcp.example.com"}, "publicUrl": public + ":1"}})
	address := fronts["http"](t, e)
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u = &user{t: t}
	u.browse = func(address string) {
		path, ok := strings.CutPrefix(address, public+":1")
		if !ok {
			t.Errorf("sent to %s", address)
		}
		if _, err := testkit.AnswerPage(context.Background(), "http://"+at.Host+path, "localhost:1", func(string) string { return askedFor }); err != nil {
			t.Error(err)
		}
	}
	defer u.work.Wait()
	c = connectClient(t, e, &asked{caps: urlCapability, reply: u.reply, url: address})
	if l := c.call("x", "echo", `{"text":"hello"}`); !strings.Contains(string(l.Result), "hello") {
		t.Errorf("%s %s", l.Result, l.Error)
	}
	if value, err := store.Get("ASKED_KEY"); value != askedFor || err != nil {
		t.Errorf("stored is %q, %v", value, err)
	}
}

// A client over HTTP that takes nothing but the answer to its request is told where
// to send its user with that answer, and repeats the request.
func TestURLElicitationRequired(t *testing.T) {
	noKeyring(t)
	e, _ := openWithoutSecret(t, nil)
	address := fronts["http"](t, e)
	session := ""
	post := func(body string) []byte {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + urlCapability + `,"clientInfo":{"name":"c","version":"1"}}}`)
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + callOf("x", "echo", `{"text":"hello"}`) + `}`
	text := post(call)
	var l struct {
		Error struct {
			Code int
			Data struct {
				Elicitations []struct{ Mode, URL, ElicitationID, Message string }
			}
		}
	}
	if err := json.Unmarshal(text, &l); err != nil || l.Error.Code != -32042 || len(l.Error.Data.Elicitations) != 1 {
		t.Fatalf("%s, %v", text, err)
	}
	to := l.Error.Data.Elicitations[0]
	if to.Mode != "url" || to.ElicitationID == "" || to.Message == "" {
		t.Errorf("%+v", to)
	}
	if err := visit(t.Context(), to.URL, askedFor); err != nil {
		t.Fatal(err)
	}
	if text := post(call); !strings.Contains(string(text), "hello") {
		t.Errorf("repeated: %s", text)
	}
}

// The page ends with its client.
func TestPageEndsWithItsClient(t *testing.T) {
	noKeyring(t)
	e, store := openWithoutSecret(t, nil)
	where := make(chan string, 1)
	u := &user{t: t, browse: func(address string) { where <- address }}
	t.Run("client", func(t *testing.T) {
		c := connectClient(t, e, &asked{caps: urlCapability, reply: u.reply})
		_, answer := c.begin("tools/call", callOf("x", "echo", `{}`))
		u.work.Wait()
		select {
		case address := <-where:
			where <- address
		case <-answer:
			t.Error("it was answered")
		case <-time.After(time.Minute):
			t.Error("nobody was asked")
		}
	}) // here it disconnects
	if err := visit(t.Context(), <-where, askedFor); err == nil {
		t.Error("the page is there after its client")
	}
	if _, err := store.Get("ASKED_KEY"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// Calls that want a login of the same server wait for one login; that it is over
// makes all of them go on. A login that its user does not want is the error that
// there is without it.
func TestCallsWaitForALogin(t *testing.T) {
	noKeyring(t)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			f := fakeauth.Start(t, nil)
			e := openConfig(t, t.TempDir(), map[string]any{"mcpServers": map[string]any{"docs": map[string]any{"url": f.URL()}}})
			u := &user{t: t, action: "decline"}
			c := connectClient(t, e, &asked{caps: urlCapability, modern: way.modern, reply: u.reply, url: fronts[way.front](t, e)})
			if text := textIn(t, c.call("docs", "read", `{}`)); !strings.Contains(text, "metamcp auth login docs") || !strings.Contains(text, "declined") {
				t.Errorf("declined: %s", text)
			}
			u.action, u.browse = "", func(address string) {
				if err := fakeauth.Visit(address); err != nil {
					t.Error(err)
				}
			}
			u.asked.Store(0)
			var calls sync.WaitGroup
			for range 5 {
				calls.Go(func() {
					if l := c.call("docs", "read", `{}`); !strings.Contains(string(l.Result), "read was called with") {
						t.Errorf("%s %s", l.Result, l.Error)
					}
				})
			}
			calls.Wait()
			u.work.Wait()
			if n := u.asked.Load(); n != 1 {
				t.Errorf("the user was asked %d times", n)
			}
		})
	}
}

// A call whose user does not answer ends with the host.
func TestUnansweredInvitationEndsWithTheHost(t *testing.T) {
	noKeyring(t)
	e, _ := openWithoutSecret(t, nil)
	questions := make(chan rpcLine, 1)
	c := connectClient(t, e, &asked{caps: urlCapability, reply: func(q rpcLine) string {
		questions <- q
		return ""
	}})
	_, answer := c.begin("tools/call", callOf("x", "echo", `{"text":"hello"}`))
	<-questions
	closed := make(chan error, 1)
	go func() { closed <- e.Close(context.Background()) }()
	if text := textIn(t, c.await(answer)); !strings.Contains(text, "metamcp secrets set ASKED_KEY") {
		t.Errorf("it says %s", text)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A call that its client gives up leaves the login to go on: many clients wait a
// minute, and people take longer.
func TestLoginOutlivesItsCall(t *testing.T) {
	noKeyring(t)
	f := fakeauth.Start(t, nil)
	e := openConfig(t, t.TempDir(), map[string]any{"mcpServers": map[string]any{"docs": map[string]any{"url": f.URL()}}})
	questions := make(chan rpcLine, 2)
	c := connectClient(t, e, &asked{caps: urlCapability, reply: func(q rpcLine) string {
		questions <- q
		return "" // the test answers, so that it is known when
	}})
	id, _ := c.begin("tools/call", callOf("docs", "read", `{}`))
	q := <-questions
	var p struct{ URL string }
	if err := json.Unmarshal(q.Params, &p); err != nil {
		t.Fatal(err)
	}
	address := p.URL
	c.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept"}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	c.ask("ping", `{}`)
	if err := fakeauth.Visit(address); err != nil {
		t.Fatal(err)
	}
	if l := c.call("docs", "read", `{}`); !strings.Contains(string(l.Result), "read was called with") {
		t.Errorf("%s %s", l.Result, l.Error)
	}
	if len(questions) != 0 {
		t.Error("the user was asked once more")
	}
}
