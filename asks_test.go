package metamcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp"
)

// person answers every kind of question, and gives back what it was asked.
func person(q rpcLine) string {
	switch q.Method {
	case "elicitation/create":
		var p struct{ Message string }
		_ = json.Unmarshal(q.Params, &p)
		return `"result":{"action":"accept","content":{"answer":"` + p.Message + `"},  "odd" : 1.0}`
	case "sampling/createMessage":
		var p struct {
			Messages []struct{ Content struct{ Text string } }
		}
		_ = json.Unmarshal(q.Params, &p)
		return `"result":{"role":"assistant","model":"m","content":{"type":"text","text":"` + p.Messages[0].Content.Text + `"}}`
	case "roots/list":
		return `"result":{"roots":[{"uri":"file:///a"}]}`
	}
	return `"error":{"code":-32601,"message":"no"}`
}

var eras = []struct {
	name   string
	client bool // modern
	child  string
	front  string
}{
	{name: "legacy client, legacy child", child: "legacy"},
	{name: "legacy client, modern child", child: "modern"},
	{name: "modern client, legacy child", client: true, child: "legacy"},
	{name: "modern client, modern child", client: true, child: "modern"},
	{name: "legacy client over HTTP, legacy child", child: "legacy", front: "http"},
	{name: "legacy client over HTTP, modern child", child: "modern", front: "http"},
	{name: "modern client over HTTP, legacy child", client: true, child: "legacy", front: "http"},
	{name: "modern client over HTTP, modern child", client: true, child: "modern", front: "http"},
}

// fronts are the ways in: the address of one over HTTP, or none.
var fronts = map[string]func(t testing.TB, e *metamcp.Engine) string{
	"": func(testing.TB, *metamcp.Engine) string { return "" },
	"http": func(t testing.TB, e *metamcp.Engine) string {
		l, err := e.ListenHTTP(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := l.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return l.URL()
	},
}

// strict is a person at a client that holds what it is asked to its own protocol: an
// elicitation by URL has an id up to 2025-11-25.
func strict(modern bool) func(q rpcLine) string {
	return func(q rpcLine) string {
		var p struct {
			Mode string
			ID   *string `json:"elicitationId"`
		}
		if json.Unmarshal(q.Params, &p) != nil || !modern && p.Mode == "url" && (p.ID == nil || *p.ID == "") {
			return `"error":{"code":-32602,"message":"the request is not one of this protocol"}`
		}
		return person(q)
	}
}

// What a child asks while it works on a call reaches the client that made it, and
// its answer reaches the child, in all pairs of eras.
func TestChildrenAskClients(t *testing.T) {
	t.Parallel()
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			t.Parallel()
			cfg := children(map[string][]string{"x": {"--era", era.child}}, nil)
			cfg["mcpServers"].(map[string]any)["x"].(map[string]any)["roots"] = true
			e := openConfig(t, t.TempDir(), cfg)
			c := connectClient(t, e, &asked{caps: allCapabilities, modern: era.client, reply: strict(era.client), url: fronts[era.front](t, e)})
			for _, q := range []struct{ tool, args, want string }{
				{"elicit", `{"message":"one"}`, `{"action":"accept","content":{"answer":"one"},"odd":1.0}`},
				{"elicit", `{"message":"two","rounds":3}`, `{"action":"accept","content":{"answer":"two"},"odd":1.0}`},
				{"elicit", `{"message":"three","mode":"url"}`, `{"action":"accept","content":{"answer":"three"},"odd":1.0}`},
				{"sample", `{"text":"four"}`, `{"role":"assistant","model":"m","content":{"type":"text","text":"four"}}`},
				{"sample", `{"text":"five","tools":true}`, `{"role":"assistant","model":"m","content":{"type":"text","text":"five"}}`},
				{"roots", `{}`, `{"roots":[{"uri":"file:///a"}]}`},
			} {
				answers, failure := answersOf(t, c.call("x", q.tool, q.args))
				want := 1
				if strings.Contains(q.args, "rounds") {
					want = 3
				}
				if len(answers) != want || failure != nil {
					t.Errorf("%s %s: %s, error %s", q.tool, q.args, answers, failure)
					continue
				}
				for _, a := range answers {
					if compactJSON(a) != q.want {
						t.Errorf("%s %s: %s, want %s", q.tool, q.args, a, q.want)
					}
				}
			}
			if !era.client && era.child == "legacy" && era.front == "" && len(c.notified("notifications/elicitation/complete")) != 1 {
				t.Error("the client does not hear that what it was sent to a URL for is complete")
			}
		})
	}
}

// compactJSON is raw without the spaces between its tokens, and all else as it was.
func compactJSON(raw json.RawMessage) string {
	var b strings.Builder
	inside := false
	for _, r := range string(raw) {
		if r == '"' {
			inside = !inside
		}
		if r != ' ' || inside {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// A client that cannot be asked is not, and the child hears of it at once.
func TestClientsThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			t.Parallel()
			e := open(t, map[string][]string{"x": {"--era", era.child}}, nil)
			c := connectClient(t, e, &asked{caps: `{"elicitation":{}}`, modern: era.client, reply: person, url: fronts[era.front](t, e)})
			for _, q := range []struct {
				tool, args string
				code       int
			}{
				{"elicit", `{"message":"one","mode":"url"}`, -32602}, {"sample", `{"text":"x"}`, -32601}, {"roots", `{}`, -32601},
			} {
				l := c.call("x", q.tool, q.args)
				if era.child == "modern" {
					if !strings.Contains(string(l.Error), "-32021") || !strings.Contains(string(l.Error), "requiredCapabilities") {
						t.Errorf("%s: %s %s", q.tool, l.Result, l.Error)
					}
					continue
				}
				if _, failure := answersOf(t, l); !strings.Contains(string(failure), fmt.Sprint(q.code)) {
					t.Errorf("%s: %s %s", q.tool, l.Result, failure)
				}
			}
			if n := c.questions(); n != 0 {
				t.Errorf("%d questions came all the same", n)
			}
			if answers, _ := answersOf(t, c.call("x", "elicit", `{"message":"one"}`)); len(answers) != 1 {
				t.Errorf("a form is answered with %s", answers)
			}
		})
	}
}

// elicitingServer is a server of another make, over HTTP, whose tools elicit and
// sample ask for what their argument says, and answer with what came back.
func elicitingServer(t testing.TB, modern bool) string {
	t.Helper()
	s := server.NewMCPServer("eliciting", "1", server.WithElicitation())
	s.EnableSampling()
	ask := func(req mcp.CallToolRequest, question *server.InputRequestBuilder) (*mcp.CallToolResult, error) {
		answer, ok := req.Params.InputResponses["q"]
		if !ok {
			return question.ToolResult(), nil
		}
		raw, err := json.Marshal(map[string]any{"answers": []any{answer}})
		return mcp.NewToolResultText(string(raw)), err
	}
	s.AddTool(mcp.NewTool("elicit", mcp.WithString("message")), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return ask(req, server.NewInputRequestBuilder("state").Elicit("q", mcp.ElicitationParams{
			Message: req.GetString("message", ""), RequestedSchema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}}}`),
		}))
	})
	s.AddTool(mcp.NewTool("sample", mcp.WithString("text")), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return ask(req, server.NewInputRequestBuilder("state").Sample("q", mcp.CreateMessageParams{
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(req.GetString("text", ""))}}, MaxTokens: 10,
		}))
	})
	handler := server.NewStreamableHTTPServer(s)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !modern && r.Header.Get("MCP-Protocol-Version") == mcp.LATEST_PROTOCOL_VERSION {
			http.Error(w, "no such version", http.StatusBadRequest)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL + "/mcp"
}

// Ten clients are asked a thousand questions by servers that they share, and each
// gets its own and only those: every answer is found where its question was made.
func TestNoQuestionGoesAstray(t *testing.T) {
	t.Parallel()
	const clients, each = 10, 13
	for _, child := range []string{"legacy", "modern", "http legacy", "http modern"} {
		t.Run(child, func(t *testing.T) {
			t.Parallel()
			cfg := children(map[string][]string{"x": {"--era", child}}, nil)
			if era, http := strings.CutPrefix(child, "http "); http {
				cfg["mcpServers"] = map[string]any{"x": map[string]any{"url": elicitingServer(t, era == "modern")}}
			}
			e := openConfig(t, t.TempDir(), cfg)
			way := fronts["http"](t, e)
			// From the first question on whose call is not told it is known that the
			// server asks.
			first := connectClient(t, e, &asked{caps: allCapabilities, reply: person})
			first.call("x", "elicit", `{"message":"first"}`)
			first.call("x", "sample", `{"text":"first"}`)
			var all sync.WaitGroup
			for n := range clients {
				all.Go(func() { askMany(t, e, way, n, each) })
			}
			all.Wait()
		})
	}
}

// askMany is one client with calls side by side: modern where its number is odd, and
// over HTTP where that is 2 or 3 more than a multiple of 4.
func askMany(t *testing.T, e *metamcp.Engine, way string, n, each int) {
	if n%4 < 2 {
		way = ""
	}
	mine := fmt.Sprintf("client%d-", n)
	c := connectClient(t, e, &asked{caps: allCapabilities, modern: n%2 == 1, url: way, reply: func(q rpcLine) string {
		if !strings.Contains(string(q.Params), mine) {
			t.Errorf("%s is asked %s", mine, q.Params)
		}
		return person(q)
	}})
	var calls sync.WaitGroup
	for side := range 2 {
		calls.Go(func() {
			for i := range each {
				nonce := fmt.Sprintf("%s%d.%d", mine, side, i)
				var l rpcLine
				script := side == 0 && i%12 == 11 // they take a second each
				switch {
				case !script && i%2 == 0:
					l = c.call("x", "elicit", `{"message":"`+nonce+`"}`)
				case !script:
					l = c.call("x", "sample", `{"text":"`+nonce+`"}`)
				default:
					code := `const r = await servers.x.elicit({message: "` + nonce + `"}); return r`
					l = c.rounds(`{"name":"mcp_execute","arguments":{"code":` + quoted(code) + `}}`)
				}
				if text := textIn(t, l); !strings.Contains(text, nonce+`\"`) && !strings.Contains(text, nonce+`"`) || strings.Count(text, "client") != strings.Count(text, mine) {
					t.Errorf("%s gets %s", nonce, text)
				}
			}
		})
	}
	calls.Wait()
	if got := c.questions(); got != 2*each {
		t.Errorf("%s was asked %d times, want %d", mine, got, 2*each)
	}
}

func quoted(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}
