package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// everythingOver starts server-everything behind a port.
func everythingOver(t testing.TB, how, port string) *testkit.Process {
	t.Helper()
	return testkit.StartListening(t, port, testkit.Command{
		Path: npmservers.Node(t), Args: []string{npmservers.Entry(t, npmservers.Everything), how}, Env: []string{"PORT=" + port},
	})
}

// Real servers answer over HTTP what they answer over stdio, to the byte.
func TestRemoteResultsAreThoseOfADirectConnection(t *testing.T) {
	t.Parallel()
	everything := func(how, path string, more ...string) func(testing.TB) map[string]any {
		return func(t testing.TB) map[string]any {
			port := testkit.FreePort(t)
			everythingOver(t, how, port)
			entry := map[string]any{"url": "http://127.0.0.1:" + port + path}
			for i := 0; i < len(more); i += 2 {
				entry[more[i]] = more[i+1]
			}
			return entry
		}
	}
	entries := map[string]func(t testing.TB) map[string]any{
		"everything over Streamable HTTP":  everything("streamableHttp", "/mcp"),
		"everything over SSE":              everything("sse", "/sse", "type", "sse"),
		"everything over SSE, which shows": everything("sse", "/sse"),
		"dbhub over Streamable HTTP": func(t testing.TB) map[string]any {
			port := testkit.FreePort(t)
			node, dbhub := npmservers.DBHub(t)
			testkit.StartListening(t, port, testkit.Command{Path: node, Args: []string{dbhub, "--transport", "http", "--port", port, "--demo"}})
			return map[string]any{"url": "http://127.0.0.1:" + port + "/mcp"}
		},
	}
	all := subjects(t)
	for name, entry := range entries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range all {
				if !strings.HasPrefix(name, s.name) {
					continue
				}
				// Over HTTP a server of both eras is spoken to in the modern one.
				bare := direct(t, s.entry(t), s.name == "dbhub")
				via := host(t, servers{"x": entry(t)}, nil)
				for _, c := range s.calls {
					result, failure := bare.ask("tools/call", toolParams(c.tool, c.args))
					viaResult, viaFailure := via.ask("tools/call", callParams("x", c.tool, c.args))
					same(t, c.tool+c.args, result, viaResult)
					same(t, c.tool+c.args, failure, viaFailure)
				}
				return
			}
			t.Fatal("nothing is compared")
		})
	}
}

// A server that was restarted knows nothing of the session: the next call makes
// a new one. While it is gone, its class says so.
func TestRemoteServerRestarts(t *testing.T) {
	t.Parallel()
	port := testkit.FreePort(t)
	p := everythingOver(t, "streamableHttp", port)
	h := host(t, servers{"x": {"url": "http://127.0.0.1:" + port + "/mcp"}}, map[string]any{"pool": map[string]any{"cooldownMs": 1}})
	echo := func() string {
		result, failure := h.ask("tools/call", callParams("x", "echo", `{"message":"hello"}`))
		return string(result) + string(failure)
	}
	if got := echo(); !strings.Contains(got, "Echo: hello") {
		t.Fatal(got)
	}
	p.Signal(t, syscall.SIGKILL)
	<-p.Exited()
	if got := echo(); !strings.Contains(got, "SERVER_CONNECTION_ERROR") || !strings.Contains(got, "offline") {
		t.Errorf("the server is gone: %s", got)
	}
	everythingOver(t, "streamableHttp", port)
	eventually(t, "the server is reached again", func() bool { return strings.Contains(echo(), "Echo: hello") })
}

// A subscription outlives the session in which it was made: where the server forgets
// that, the next call brings a new one, and the server is asked in it again.
func TestSubscriptionInANewRemoteSession(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	session := 0 // the one that the server knows
	subscribed := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &m)
		mu.Lock()
		defer mu.Unlock()
		if m.Method == "initialize" {
			session++
			w.Header().Set("Mcp-Session-Id", strconv.Itoa(session))
		}
		said, now := r.Header.Get("Mcp-Session-Id"), strconv.Itoa(session)
		result := map[string]string{
			"initialize":          `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"x","version":"1"}}`,
			"tools/list":          `{"tools":[{"name":"add","inputSchema":{"type":"object"}}]}`,
			"tools/call":          `{"content":[]}`,
			"resources/subscribe": `{}`, "resources/list": `{"resources":[]}`, "resources/templates/list": `{"resourceTemplates":[]}`, "ping": `{}`,
		}[m.Method]
		switch {
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Method != "initialize" && said != now:
			w.WriteHeader(http.StatusNotFound)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case result == "":
			w.WriteHeader(http.StatusBadRequest)
		default:
			if m.Method == "resources/subscribe" {
				subscribed[said]++
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
		}
	}))
	t.Cleanup(s.Close)
	h := host(t, servers{"x": {"url": s.URL + "/mcp"}}, nil)
	h.resultOf(h.request("resources/subscribe", `{"uri":"metamcp://x/a:b"}`))
	mu.Lock()
	first := strconv.Itoa(session)
	session = 10
	mu.Unlock()
	h.resultOf(h.request("tools/call", callParams("x", "add", `{}`)))
	eventually(t, "the server is asked in the new session", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return subscribed[first] == 1 && subscribed["11"] == 1
	})
}

// goServer is a real server made with mcp-go, which speaks both eras.
type goServer struct {
	url     string
	mcp     *server.MCPServer
	waiting chan struct{} // a call of wait has begun
	ended   chan struct{} // its context has ended
	closed  chan string   // a session was given back
}

// newGoServer starts one; a legacy one refuses what is modern, as servers of that
// era do.
func newGoServer(t testing.TB, legacy bool) *goServer {
	t.Helper()
	g := &goServer{waiting: make(chan struct{}, 1), ended: make(chan struct{}, 1), closed: make(chan string, 10)}
	hooks := &server.Hooks{}
	hooks.AddOnUnregisterSession(func(_ context.Context, s server.ClientSession) { g.closed <- s.SessionID() })
	g.mcp = server.NewMCPServer("go", "1", server.WithToolCapabilities(true), server.WithHooks(hooks))
	g.mcp.AddTool(mcp.NewTool("wait"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		g.waiting <- struct{}{}
		<-ctx.Done()
		g.ended <- struct{}{}
		return nil, ctx.Err()
	})
	handler := server.NewStreamableHTTPServer(g.mcp, server.WithStateful(true))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if legacy && r.Header.Get("Mcp-Method") != "" {
			http.Error(w, "Bad Request: no valid session", http.StatusBadRequest)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_ = handler.Shutdown(ctx)
		s.CloseClientConnections()
		s.Close()
	})
	g.url = s.URL + "/mcp"
	return g
}

func (g *goServer) event(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
	}
}

// What a server says on its own arrives, what is cancelled ends there, and at
// the end of the host a legacy server gets its session back.
func TestRemoteServerOfMCPGo(t *testing.T) {
	t.Parallel()
	for name, legacy := range map[string]bool{"legacy": true, "modern": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGoServer(t, legacy)
			h := host(t, servers{"go": {"url": g.url}}, nil)
			if found := h.discover(`{"server":"go"}`); len(found.Tools) != 1 {
				t.Fatalf("%+v", found)
			}
			g.mcp.AddTool(mcp.NewTool("later"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText("late"), nil
			})
			eventually(t, "the new tool is found", func() bool { return len(h.discover(`{"server":"go"}`).Tools) == 2 })

			id := h.request("tools/call", callParams("go", "wait", `{}`))
			g.event(t, "the call", g.waiting)
			h.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`))
			g.event(t, "the end of the call", g.ended)

			h.p.CloseStdin()
			h.p.Wait(t, patience)
			if !legacy {
				return
			}
			select {
			case <-g.closed:
			case <-time.After(patience):
				t.Error("the session was not given back")
			}
		})
	}
}

// What is wrong with a server behind a URL is said in words that help.
func TestRemoteServersThatRefuse(t *testing.T) {
	t.Parallel()
	respond := func(status int, header, value, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(header, value)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL + "/mcp?key=s3cret-of-the-url"
	}
	h := host(t, servers{
		"auth":     {"url": respond(401, "WWW-Authenticate", `Bearer realm="x"`, "")},
		"busy":     {"url": respond(503, "Retry-After", "30", "try later")},
		"page":     {"url": respond(200, "Content-Type", "text/html", "<html>")},
		"internal": {"url": respond(307, "Location", "http://169.254.169.254/latest/meta-data", "")},
		"nowhere":  {"url": "http://127.0.0.1:" + testkit.FreePort(t) + "/mcp"},
		"no-name":  {"url": "http://no-such-host.invalid/mcp"},
	}, nil)
	for name, want := range map[string][]string{
		"auth": {"auth", "401"}, "busy": {"http", "503", "try later"}, "page": {"text/html"},
		"internal": {"169.254.169.254", "put that into its url"}, "nowhere": {"offline", "refused"}, "no-name": {"offline", "no-such-host.invalid"},
	} {
		result, failure := h.ask("tools/call", callParams(name, "x", `{}`))
		got := string(result) + string(failure)
		for _, part := range append(want, "SERVER_CONNECTION_ERROR") {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no %q in %s", name, part, got)
			}
		}
		if strings.Contains(got, "s3cret-of-the-url") {
			t.Errorf("%s tells the key of the URL: %s", name, got)
		}
	}
}
