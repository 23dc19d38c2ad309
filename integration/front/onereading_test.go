package front

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// reached notes what mcp-go does of its own accord.
type reached struct {
	mu      sync.Mutex
	methods []string
	tools   []string
	uris    []string
}

// newReached returns a server that does all that there is, and the notes on it.
func newReached() (*server.MCPServer, *reached) {
	r := &reached{}
	hooks := &server.Hooks{}
	hooks.AddBeforeAny(func(_ context.Context, _ any, method mcp.MCPMethod, _ any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.methods = append(r.methods, string(method))
	})
	s := server.NewMCPServer("metamcp", "1", server.WithToolCapabilities(true), server.WithLogging(), server.WithHooks(hooks),
		server.WithResourceCapabilities(true, true), server.WithPromptCapabilities(true))
	for _, name := range []string{"mcp_call", "mcp_discover", "mcp_execute", "mcp_provision"} {
		s.AddTool(mcp.NewTool(name), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.tools = append(r.tools, name+"/"+req.Params.Name)
			return mcp.NewToolResultText(name), nil
		})
	}
	s.AddResource(mcp.NewResource("a://x", "x"), func(_ context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.uris = append(r.uris, req.Params.URI)
		return nil, nil
	})
	return s, r
}

// judge gives the front a line, and fails the test where mcp-go did something else
// than what the front has seen.
func (r *reached) judge(t *testing.T, s *server.MCPServer, line []byte) {
	t.Helper()
	r.methods, r.tools, r.uris = nil, nil, nil
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c := newConnection(ctx, Options{MCP: s, Engine: &fakeEngine{}}.withDefaults(), newStream(0))
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.peer.pump(over)
	}()
	defer func() {
		close(over)
		<-ended
	}()
	in, err := parseIncoming(line)
	if err == nil && in.Method == "subscriptions/listen" {
		return // it ends when the client says so
	}
	c.message(line, c.out, nil)
	c.running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	name, _ := jsonrpc.Unquote(in.slots[slotName])
	for _, method := range r.methods {
		if err != nil || method != in.Method {
			t.Fatalf("%s\nthe front saw %q (%v), mcp-go did %q", line, in.Method, err, method)
		}
	}
	for _, tool := range r.tools {
		if err != nil || in.Method != methodToolsCall || tool != name+"/"+name {
			t.Fatalf("%s\nthe front saw %q of %q (%v), mcp-go called %s", line, in.Method, name, err, tool)
		}
	}
	for _, uri := range r.uris {
		if seen, _ := jsonrpc.Unquote(jsonrpc.Get(in.Params, "uri")); err != nil || uri != seen {
			t.Fatalf("%s\nthe front saw the URI %q (%v), mcp-go read %q", line, seen, err, uri)
		}
	}
}

// disguise writes a name so that some reader may take it for the same.
func disguise(r *rand.Rand, name string) string {
	var b strings.Builder
	for _, c := range name {
		s := string(c)
		switch {
		case r.IntN(8) == 0:
			s = strings.ToUpper(s)
		case c == 's' && r.IntN(8) == 0:
			s = "ſ"
		case c == 'k' && r.IntN(8) == 0:
			s = "\u212a"
		}
		if r.IntN(10) == 0 {
			for _, c := range s {
				fmt.Fprintf(&b, `\u%04x`, c)
			}
			continue
		}
		b.WriteString(s)
	}
	return b.String()
}

// object writes members in any order, some of them several times and disguised.
func object(r *rand.Rand, value func(name string) string, names ...string) string {
	var members []string
	for _, name := range names {
		for range 1 + max(0, r.IntN(6)-4) {
			key := name
			if r.IntN(4) == 0 {
				key = disguise(r, name)
			}
			members = append(members, `"`+key+`":`+value(name))
		}
	}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

func disguised(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	meta := func(name string) string {
		switch name {
		case "io.modelcontextprotocol/protocolVersion":
			return pick(`"2026-07-28"`, `"2025-11-25"`, `1`)
		case "io.modelcontextprotocol/clientInfo":
			return `{"name":"c","version":"1"}`
		}
		return "{}"
	}
	params := func(name string) string {
		switch name {
		case "name":
			return pick(`"mcp_discover"`, `"mcp_execute"`, `"mcp_provision"`, `"mcp_call"`, "null")
		case "uri":
			return pick(`"a://x"`, `"a://y"`)
		case "_meta":
			return object(r, meta, "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/clientCapabilities")
		}
		return `{"server":"s","tool":"t"}`
	}
	return object(r, func(name string) string {
		switch name {
		case "jsonrpc":
			return `"2.0"`
		case "id":
			return pick("1", "2", `"x"`)
		case "method":
			return pick(`"tools/call"`, `"ping"`, `"initialize"`, `"server/discover"`, `"tools/list"`, `"resources/read"`, `"prompts/list"`)
		}
		names := []string{"name", "arguments", "uri"}
		if r.IntN(2) == 0 {
			names = append(names, "_meta")
		}
		return object(r, params, names...)
	}, "jsonrpc", "id", "method", "params")
}

// Whatever names are spelt like and however often they stand there, mcp-go does
// what the front has seen, or nothing.
func TestOneReading(t *testing.T) {
	s, reached := newReached()
	r := rand.New(rand.NewPCG(1, 2))
	did := map[string]int{}
	for range 5000 {
		reached.judge(t, s, []byte(disguised(r)))
		for _, what := range append(slices.Clone(reached.methods), reached.tools...) {
			did[what]++
		}
	}
	for _, what := range []string{"ping", "initialize", "tools/call", "mcp_execute/mcp_execute", "resources/read"} {
		if did[what] == 0 {
			t.Errorf("%s was never done: the test shows nothing", what)
		}
	}
}

func FuzzOneReading(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add([]byte(disguised(r)))
	}
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"mcp_provision","arguments":{}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_discover","NAME":"mcp_execute","arguments":{}}}`))
	s, reached := newReached()
	f.Fuzz(func(t *testing.T, line []byte) { reached.judge(t, s, line) })
}

// Every name that mcp-go reads in params is one whose look-alikes are refused.
func TestKnowsWhatMCPGoReads(t *testing.T) {
	var known []string
	line := func(member string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"x","params":{` + string(jsonrpc.AppendQuote(nil, member)) + `:1}}`)
	}
	var look func(kind reflect.Type)
	look = func(kind reflect.Type) {
		for i := range kind.NumField() {
			f := kind.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				look(f.Type)
			case name != "" && name != "-":
				known = append(known, name)
			}
		}
	}
	for _, params := range []any{
		mcp.DiscoverParams{}, mcp.SubscriptionsListenParams{}, mcp.MultiRoundTripParams{}, mcp.GetPromptParams{}, mcp.CallToolParams{}, mcp.RequestParams{},
		mcp.CancelledNotificationParams{}, mcp.InitializeParams{}, mcp.ProgressNotificationParams{}, mcp.PaginatedParams{}, mcp.ReadResourceParams{},
		mcp.SubscribeParams{}, mcp.UnsubscribeParams{}, mcp.SetLevelParams{}, mcp.CompleteParams{}, mcp.GetTaskParams{}, mcp.TaskResultParams{}, mcp.CancelTaskParams{},
	} {
		look(reflect.TypeOf(params))
	}
	if len(known) < 20 {
		t.Fatalf("only %q are known", known)
	}
	for _, name := range known {
		if _, err := parseIncoming(line(strings.ToUpper(name))); err == nil {
			t.Errorf("%q is taken, which mcp-go reads as %q: it belongs into mcpParams", strings.ToUpper(name), name)
		}
		if _, err := parseIncoming(line(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A message that could be read two ways is refused over stdio, with the id.
func TestTwoReadingsAreRefused(t *testing.T) {
	s, reached := newReached()
	c := start(t, Options{MCP: s})
	for _, test := range []struct{ line, member string }{
		{`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"mcp_provision","arguments":{}}}`, "Method"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"mcp_execute","arguments":{}}}`, "method"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_discover","Name":"mcp_execute"}}`, "Name"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","argumentſ":{}}}`, "argumentſ"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","_META":{}}}`, "_META"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","_meta":{"progressToken":1,"ProgressToken":2}}}`, "ProgressToken"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","_meta":{"io.modelcontextprotocol/clientInfo":{"name":"a","Name":"b"}}}}`, "Name"},
	} {
		c.send(test.line)
		var got struct {
			ID    int
			Error struct {
				Code    int
				Message string
			}
		}
		if line := c.recv(); json.Unmarshal([]byte(line), &got) != nil || got.ID != 1 || got.Error.Code != codeInvalid || !strings.Contains(got.Error.Message, `"`+test.member+`"`) {
			t.Errorf("%s\nis answered %s", test.line, line)
		}
	}
	c.endsClean()
	if len(reached.methods)+len(reached.tools) > 0 {
		t.Errorf("mcp-go did %q, %q", reached.methods, reached.tools)
	}
}

// What mcp-go is handed is what was read, whatever the line looked like.
func TestTheLineForMCPGo(t *testing.T) {
	in, err := parseIncoming([]byte("{ \"x\":[1,2],\"params\" : {\"a\": 1},\"result\":7,\"m\\u0065thod\":\"a\\u0022b\",\"id\":\"q\",\"jsonrpc\":\"2.0\"}\r\n"))
	if want := `{"jsonrpc":"2.0","id":"q","method":"a\"b","params":{"a": 1}}`; err != nil || string(in.line()) != want {
		t.Errorf("%s, %v; want %s", in.line(), err, want)
	}
}

// A tool's handler runs for whom the front has seen call it, and for nobody else.
func TestOnlyCalled(t *testing.T) {
	handler := OnlyCalled(func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("ran"), nil
	})
	req := mcp.CallToolRequest{}
	req.Params.Name = "mcp_execute"
	with := func(tool string) context.Context {
		return context.WithValue(context.Background(), callerKey{}, &Caller{tool: tool})
	}
	for _, ctx := range []context.Context{context.Background(), with(""), with("mcp_discover")} {
		if res, err := handler(ctx, req); err == nil || res != nil {
			t.Errorf("%v, %v", res, err)
		}
	}
	if res, err := handler(with("mcp_execute"), req); err != nil || res == nil {
		t.Errorf("%v, %v", res, err)
	}
}
