package metamcp_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/bearer"
	"github.com/metamcp/metamcp/integration/oauth/fakeauth"
	"github.com/metamcp/metamcp/integration/secrets"
)

// invited is a client whose questions the test answers.
type invited struct {
	*asked
	questions chan rpcLine
}

func connectInvited(t *testing.T, e *metamcp.Engine, url, key string) *invited {
	t.Helper()
	c := &invited{questions: make(chan rpcLine, 8)}
	c.asked = connectClient(t, e, &asked{caps: urlCapability, url: url, key: key, reply: func(q rpcLine) string {
		c.questions <- q
		return ""
	}})
	return c
}

// question waits until the client is asked, and returns where its user is sent.
func (c *invited) question() (q rpcLine, address string) {
	c.t.Helper()
	select {
	case q = <-c.questions:
	case <-time.After(time.Minute):
		c.t.Fatal("the client is not asked")
	}
	var p struct{ URL string }
	if err := json.Unmarshal(q.Params, &p); err != nil {
		c.t.Fatal(err)
	}
	return q, p.URL
}

func (c *invited) says(q rpcLine, action string) {
	c.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"` + action + `"}}`)
}

// leave ends the session over HTTP.
func (c *invited) leave() {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodDelete, c.url, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", c.session)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		c.t.Fatal(resp.Status)
	}
}

// Clients that lack the same secret are asked each, on a page of its own, whatever
// the others do: one that says nothing, declines or leaves takes its page with it,
// and what the first one enters serves all that still wait.
func TestPagesAreOfOneClientEach(t *testing.T) {
	noKeyring(t)
	e, store := openWithoutSecret(t, nil)
	url := fronts["http"](t, e)
	var clients []*invited
	var answers []chan rpcLine
	var asks []rpcLine
	var pages []string
	seen := map[string]bool{}
	for range 4 {
		c := connectInvited(t, e, url, "")
		_, answer := c.begin("tools/call", callOf("x", "echo", `{"text":"hello"}`))
		q, page := c.question()
		clients, answers, asks, pages = append(clients, c), append(answers, answer), append(asks, q), append(pages, page)
		seen[page] = true
	}
	if len(seen) != len(pages) {
		t.Fatalf("the pages are %v", pages)
	}
	clients[0].post(`{"jsonrpc":"2.0","id":` + string(asks[0].ID) + `,"result":{"action":"accept"}}`) // it has arrived then
	clients[0].leave()
	clients[1].says(asks[1], "decline")
	if text := textIn(t, clients[1].await(answers[1])); !strings.Contains(text, "declined") {
		t.Errorf("who declined gets %s", text)
	}
	for i, what := range []string{"left", "declined"} {
		until(t, "the page of who "+what+" is closed", func() bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, pages[i], http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err != nil
		})
		if err := visit(t.Context(), pages[i], askedFor); err == nil {
			t.Errorf("who %s can still enter a value", what)
		}
	}
	if len(answers[2])+len(answers[3]) != 0 {
		t.Error("what one client does ended the call of another")
	}
	clients[3].says(asks[3], "accept")
	if err := visit(t.Context(), pages[3], askedFor); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{2, 3} {
		if l := clients[i].await(answers[i]); !strings.Contains(string(l.Result), "hello") {
			t.Errorf("client %d: %s %s", i, l.Result, l.Error)
		}
	}
	if value, err := store.Get("ASKED_KEY"); value != askedFor || err != nil {
		t.Errorf("stored is %q, %v", value, err)
	}
}

// The page of a token that is removed takes no value, and its session ends; one whose
// token may not add servers is asked for none.
func TestPagesEndWithTheToken(t *testing.T) {
	noKeyring(t)
	dir := t.TempDir()
	state := filepath.Join(dir, ".metamcp")
	cfg := children(map[string][]string{"x": nil}, map[string]any{"http": map[string]any{"keepAliveMs": 1000}})
	cfg["mcpServers"].(map[string]any)["x"].(map[string]any)["env"].(map[string]string)["API_KEY"] = "${secret:ASKED_KEY}"
	e := openConfig(t, dir, cfg)
	tokens := bearer.New(state, nil)
	key := func(name string, noProvision bool) string {
		t.Helper()
		token, err := tokens.Add(t.Context(), name, 0, noProvision)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	mine, bound := key("mine", false), key("bound", true)
	url := fronts["http"](t, e)
	b := connectInvited(t, e, url, bound)
	if text := textIn(t, b.call("x", "echo", `{}`)); !strings.Contains(text, "metamcp secrets set ASKED_KEY") || len(b.questions) != 0 {
		t.Errorf("a client that may not add servers: %s", text)
	}

	a := connectInvited(t, e, url, mine)
	a.begin("tools/call", callOf("x", "echo", `{}`))
	q, page := a.question()
	a.says(q, "accept")
	if removed, err := tokens.Remove(t.Context(), "mine"); !removed || err != nil {
		t.Fatal(removed, err)
	}
	if err := visit(t.Context(), page, askedFor); err == nil {
		t.Error("a value was taken from who is not let in any more")
	}
	if _, err := secrets.New(state).Get("ASKED_KEY"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("stored all the same: %v", err)
	}
	until(t, "its session ends, and no other", func() bool {
		st, err := e.HostStatus(t.Context(), false)
		return err == nil && len(st.Clients) == 1
	})
}

// A call that waits for what its client was asked on behalf of another call ends by
// its own time, and says so; the cancelled asking is made anew for the next.
func TestWaitingForAPageIsBounded(t *testing.T) {
	noKeyring(t)
	e, _ := openWithoutSecret(t, nil)
	c := connectInvited(t, e, "", "")
	id, _ := c.begin("tools/call", callOf("x", "echo", `{"text":"first"}`))
	_, page := c.question()
	waits := strings.Replace(callOf("x", "echo", `{}`), `"tool":`, `"timeoutMs":300,"tool":`, 1)
	if text := textIn(t, c.ask("tools/call", waits)); !strings.Contains(text, "still being asked") {
		t.Errorf("the call that waited says %s", text)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	until(t, "the question is withdrawn", func() bool { return len(c.notified("notifications/cancelled")) == 1 })
	_, answer := c.begin("tools/call", callOf("x", "echo", `{"text":"hello"}`))
	q, other := c.question()
	if other == page {
		t.Error("the next asking has the page of the last")
	}
	c.says(q, "accept")
	if err := visit(t.Context(), other, askedFor); err != nil {
		t.Error(err)
	}
	if l := c.await(answer); !strings.Contains(string(l.Result), "hello") {
		t.Errorf("%s %s", l.Result, l.Error)
	}
}

// Where a login has one port, clients take turns, and who waits keeps to its time.
func TestLoginsWithOnePortTakeTurns(t *testing.T) {
	noKeyring(t)
	f := fakeauth.Start(t, nil)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	e := openConfig(t, t.TempDir(), map[string]any{"mcpServers": map[string]any{"docs": map[string]any{"url": f.URL(), "oauth": map[string]any{"redirectPort": port}}}})
	a, b := connectInvited(t, e, "", ""), connectInvited(t, e, "", "")
	a.begin("tools/call", callOf("docs", "read", `{}`))
	q, first := a.question()
	waits := strings.Replace(callOf("docs", "read", `{}`), `"tool":`, `"timeoutMs":300,"tool":`, 1)
	if text := textIn(t, b.ask("tools/call", waits)); !strings.Contains(text, "another client was asked first") {
		t.Errorf("who waits in vain hears %s", text)
	}
	_, answer := b.begin("tools/call", callOf("docs", "read", `{}`))
	a.says(q, "decline")
	q, second := b.question()
	if first == second {
		t.Error("the address of one client is given to another")
	}
	b.says(q, "accept")
	if err := fakeauth.Visit(second); err != nil {
		t.Fatal(err)
	}
	if l := b.await(answer); !strings.Contains(string(l.Result), "read was called with") {
		t.Errorf("%s %s", l.Result, l.Error)
	}
}
