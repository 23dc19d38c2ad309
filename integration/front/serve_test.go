package front

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

func TestSplicedCall(t *testing.T) {
	calls := make(chan Request, 1)
	engine := &fakeEngine{}
	engine.call = func(r Request) {
		calls <- r
		r.Reply.Answer(&messages.Answer{Result: json.RawMessage(`{"content": [ ], "n":1.00, "s":"\u003c"}`)})
	}
	s := start(t, Options{Engine: engine, ServerInfo: []byte(testInfo), Session: 77})
	s.send(callLine(`9007199254740993`, `{"server":"s","tool":"t","args":{"a":1.0},"timeoutMs":1500}`))
	s.expect(`{"jsonrpc":"2.0","id":9007199254740993,"result":{"content": [ ], "n":1.00, "s":"\u003c"}}`)
	got := <-calls
	if got.Server != "s" || got.Tool != "t" || string(got.Args) != `{"a":1.0}` || got.Timeout != 1500*time.Millisecond || got.Session != 77 || got.Era != messages.EraLegacy || got.Progress != nil || got.Call == 0 {
		t.Errorf("the engine got %+v", got)
	}

	modern := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}`
	s.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{` + modern + `,"name":"mcp_call","arguments":{"server":"s","tool":"t"}}}`)
	s.expect(`{"jsonrpc":"2.0","id":"x","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":` + testInfo + `},"content": [ ], "n":1.00, "s":"\u003c"}}`)
	got = <-calls
	if got.Era != messages.EraModern || got.Progress == nil || got.Args != nil {
		t.Errorf("the engine got %+v", got)
	}

	// A modern request that mcp-go must refuse never reaches the engine.
	s.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01","io.modelcontextprotocol/clientCapabilities":{}},"name":"mcp_call","arguments":{"server":"s","tool":"t"}}}`)
	if line := s.recv(); !strings.Contains(line, `"code":-32022`) || len(calls) != 0 {
		t.Errorf("an unknown revision: %s", line)
	}
	s.endsClean()
}

// TestUnknownTool: whoever calls a server's tool directly is told how.
func TestUnknownTool(t *testing.T) {
	s := start(t, Options{})
	s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{}}}`)
	if line := s.recv(); !strings.Contains(line, "-32602") || !strings.Contains(line, "'read_file' not found: tools of the servers") || !strings.Contains(line, "called with mcp_call {") {
		t.Errorf("an unknown tool: %s", line)
	}
	s.endsClean()
}

func TestSplicedErrors(t *testing.T) {
	engine := &fakeEngine{}
	engine.call = func(r Request) {
		if r.Tool == "rpc" {
			r.Reply.Answer(&messages.Answer{RPCError: json.RawMessage(`{"code":-32602,"message":"no <x>","data":{"a":[1]}}`)})
			return
		}
		r.Reply.Answer(&messages.Answer{Err: &messages.Error{Code: messages.CodeServerNotFound, Message: "no server s", Server: "s", Hint: "h"}})
	}
	s := start(t, Options{Engine: engine})
	s.send(callLine(1, `{"server":"s","tool":"rpc"}`))
	s.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no <x>","data":{"a":[1]}}}`)
	s.send(callLine(2, `{"server":"s","tool":"t"}`))
	s.expect(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{\"error\":{\"code\":\"SERVER_NOT_FOUND\",\"message\":\"no server s\",\"server\":\"s\",\"retryable\":false,\"hint\":\"h\"}}"}],"isError":true}}`)
	for arguments, want := range map[string]string{
		`{"tool":"t"}`:                                         "server: the name",
		`{"server":"s","tool":7}`:                              "tool: the name",
		`{"server":"","tool":"t"}`:                             "server: the name",
		`{"server":"s","tool":"t","args":"{\"a\":1}"}`:         "not a string",
		`{"server":"s","tool":"t","args":[1]}`:                 "not an array",
		`{"server":"s","tool":"t","arguments":{"a":1}}`:        `arguments: no such argument`,
		`{"server":"s","tool":"t","arguments":"{\"a\":1}"}`:    `go into \\\"args\\\"`,
		`{"server":"s","tool":"t","args":null,"input":{}}`:     `input: no such argument`,
		`{"server":"s","tool":"t","args":{},"input":null}`:     `input: no such argument`,
		`{"server":"git","tool":"git_log","max_count":5}`:      `max_count: no such argument`,
		`{"a":{"args":{}},"b":1,"server":"s","tool":"t"}`:      `a: no such argument`,
		`{"server":"s","tool":"t","Args":{"a":1}}`:             `Args: no such argument`,
		`{"server":"s","tool":"t","timeout":5000}`:             `args and timeoutMs`,
		`{"server":"s","tool":"t","":0}`:                       `: no such argument`,
		`{"server":"s","tool":"t","_meta":{}}`:                 `_meta: no such argument`,
		`{"server":"s","tool":"t","args":{},"timeoutMs":0}`:    "timeoutMs",
		`{"server":"s","tool":"t","args":{},"timeoutMs":"1"}`:  "timeoutMs",
		`{"server":"s","tool":"t","args":{},"timeoutMs":-1e9}`: "timeoutMs",
		`null`: "arguments: missing",
		`[]`:   "arguments: an object",
	} {
		s.send(callLine(3, arguments))
		if line := s.recv(); !strings.Contains(line, "VALIDATION_ERROR") || !strings.Contains(line, want) || !strings.Contains(line, `"isError":true`) {
			t.Errorf("%s: %s, want %q", arguments, line, want)
		}
	}
	s.endsClean()
}

func TestBadLines(t *testing.T) {
	s := start(t, Options{MaxLine: 1 << 20})
	for _, test := range []struct {
		line, id string
		code     int
		want     string
	}{
		{`{"jsonrpc":"2.0","id":1,`, "null", -32700, "at byte 24"},
		{"\xef\xbb\xbf{}", "null", -32700, "at byte 0"}, // not the first line
		{`hello`, "null", -32700, "at byte 0"},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "null", -32600, "batches were removed"},
		{`{"id":4,"method":"ping"}`, "4", -32600, "2.0"},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", -32600, "id"},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, "null", -32600, "must not be null"},
		{`{"jsonrpc":"2.0","id":12,"id":99,"method":"ping"}`, "null", -32600, "twice"},
		{`{"jsonrpc":"2.0","id":5,"method":"no/such"}`, "5", -32601, ""},
		{strings.Repeat("[", 20000), "null", -32700, "deeper"},
		{strings.Repeat("x", 1<<20+1), "null", -32600, "longer than 1048576 bytes"},
		{`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"` + strings.Repeat("x", 1<<20) + `"}}`, "6", -32600, "longer than"},
		{`{"method":"tools/call","params":{"name":"` + strings.Repeat("x", 1<<20) + `"},"id":"seven"}`, `"seven"`, -32600, "longer than"},
		{`{"jsonrpc":"2.0","method":"notifications/none","params":{"id":8,"name":"` + strings.Repeat("x", 1<<20) + `"}}`, "null", -32600, "longer than"},
		{`{"jsonrpc":"2.0","id":9,"result":{"name":"` + strings.Repeat("x", 1<<20) + `"}}`, "null", -32600, "longer than"},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 100_000) + `","method":7}`, `"` + strings.Repeat("x", 100_000) + `"`, -32600, "method"},
	} {
		s.send(`{"jsonrpc":"2.0","id":0,"method":"ping"}`)
		s.recv()
		s.send(test.line)
		var got struct {
			ID    json.RawMessage
			Error struct {
				Code    int
				Message string
			}
		}
		line := s.recv()
		if err := json.Unmarshal([]byte(line), &got); err != nil || string(got.ID) != test.id || got.Error.Code != test.code || !strings.Contains(got.Error.Message, test.want) {
			t.Errorf("%.60q: %.300s", test.line, line)
		}
	}
	// Silence for these.
	s.send("", "  \r", `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","method":"notifications/none"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","method":"notifications/initialized","params":[1]}`)
	s.endsClean()
}

// An answer that is too long ends the wait of who asked.
func TestAnswerTooLong(t *testing.T) {
	answer := make(heard, 1)
	engine := &fakeEngine{call: func(r Request) {
		r.Client.Ask(r.Call, []*messages.Question{{ID: 1, Method: "roots/list", Reply: answer}})
		r.Reply.Answer(&messages.Answer{Call: r.Call, Result: json.RawMessage(`{}`)})
	}}
	s := start(t, Options{Engine: engine, MaxLine: 1 << 20})
	s.send(callLine(1, `{"server":"s","tool":"t"}`))
	var question struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(s.recv()), &question); err != nil {
		t.Fatal(err)
	}
	s.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	s.send(`{"jsonrpc":"2.0","id":` + string(question.ID) + `,"result":{"roots":"` + strings.Repeat("x", 1<<20) + `"}}`)
	select {
	case a := <-answer:
		if !strings.Contains(string(a.Error), "longer than 1048576 bytes") {
			t.Errorf("who asked is told %s", a.Error)
		}
	case <-time.After(patience):
		t.Error("who asked still waits")
	}
	s.endsClean()
}

func TestFirstLineBOMAndCRLF(t *testing.T) {
	s := start(t, Options{})
	s.send("\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r")
	s.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	s.endsClean()
}

// A script pipes in everything at once and closes; all is answered, and the
// handshake is answered first.
func TestPipedScript(t *testing.T) {
	release := make(chan struct{})
	s := start(t, Options{MCP: newMCP(map[string]server.ToolHandlerFunc{
		"slow": func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			select {
			case <-release:
				return mcp.NewToolResultText("<slow> & steady"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	})})
	s.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"slow"}}`)
	_ = s.in.Close()
	if line := s.recv(); !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05"`) {
		t.Errorf("the handshake: %s", line)
	}
	close(release)
	s.expect(`{"jsonrpc":"2.0","id":12345678901234567890,"result":{"content":[{"type":"text","text":"<slow> & steady"}]}}`)
	s.endsClean()
}

func TestProgressBeforeAnswer(t *testing.T) {
	const n = 1000
	engine := &fakeEngine{}
	engine.call = func(r Request) {
		go func() { // as a child's reader does
			for i := range n {
				r.Progress.Progress(r.Call, fmt.Appendf(nil, `{"progressToken":%d,"progress":%d}`, r.Call, i))
			}
			r.Reply.Answer(&messages.Answer{Result: json.RawMessage(`{"content":[]}`)})
			r.Progress.Progress(r.Call, json.RawMessage(`{"progress":-1}`)) // too late
		}()
	}
	mcpServer := newMCP(nil)
	mcpServer.AddTool(mcp.NewTool("own"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range n {
			if i%2 == 0 { // through mcp-go and past it
				if err := mcpServer.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": "own", "progress": i}); err != nil {
					return nil, err
				}
				continue
			}
			if err := server.ClientSessionFromContext(ctx).(*Peer).Notify("notifications/message", fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("done"), nil
	})
	s := start(t, Options{Engine: engine, MCP: mcpServer})
	s.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	s.recv()
	s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"tok"},"name":"mcp_call","arguments":{"server":"s","tool":"t"}}}`)
	for i := range n {
		s.expect(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progress":%d}}`, i))
	}
	s.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	s.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"own"}}`)
	count, next := 0, 0
	for {
		line := s.recv()
		if strings.Contains(line, `"id":2`) {
			break
		}
		count++
		var m struct{ Params struct{ Progress *int } }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m.Params.Progress != nil {
			if *m.Params.Progress != next {
				t.Fatalf("progress %d came when %d was due", *m.Params.Progress, next)
			}
			next += 2
		}
	}
	if count != n {
		t.Errorf("%d notifications before the answer, want %d", count, n)
	}
	s.endsClean()
}

func TestTenThousandAtOnce(t *testing.T) {
	engine := &fakeEngine{}
	engine.call = func(r Request) {
		go func() { r.Reply.Answer(&messages.Answer{Result: echo(r)}) }()
	}
	s := start(t, Options{Engine: engine})
	const n = 10_000
	go func() {
		w := bufio.NewWriter(s.in)
		for i := range n {
			_, _ = fmt.Fprintln(w, callLine(i, fmt.Sprintf(`{"server":"s","tool":"t","args":{"i":%d}}`, i)))
		}
		_ = w.Flush()
	}()
	seen := make([]bool, n)
	for range n {
		var got struct {
			ID     int
			Result struct{ StructuredContent struct{ I int } }
		}
		if err := json.Unmarshal([]byte(s.recv()), &got); err != nil {
			t.Fatal(err)
		}
		if got.ID != got.Result.StructuredContent.I || seen[got.ID] {
			t.Fatalf("answer %d carries %d", got.ID, got.Result.StructuredContent.I)
		}
		seen[got.ID] = true
	}
	s.endsClean()
}

// A client that sends all before it reads anything is still served.
func TestSlowReader(t *testing.T) {
	engine := &fakeEngine{}
	big := strings.Repeat("y", 100_000)
	engine.call = func(r Request) {
		r.Reply.Answer(&messages.Answer{Result: fmt.Appendf(nil, `{"content":[],"big":"%s"}`, big)})
	}
	s := start(t, Options{Engine: engine})
	const n = 200 // 20 MB of answers
	for i := range n {
		s.send(callLine(i, `{"server":"s","tool":"t"}`))
	}
	for i := range n {
		s.expect(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[],"big":%q}}`, i, big))
	}
	s.endsClean()
}

// TestCallsWaitForTheLists: before it is known which tools there are, a client gets
// its handshake, and its first call waits.
func TestCallsWaitForTheLists(t *testing.T) {
	listed := make(chan struct{})
	engine := &fakeEngine{call: func(r Request) {
		select {
		case <-listed:
		default:
			t.Error("the call came before the lists")
		}
		r.Reply.Answer(&messages.Answer{Call: r.Call, Result: echo(r)})
	}}
	s := start(t, Options{Engine: engine, Listed: listed})
	s.send(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`,
		callLine(3, `{"server":"s","tool":"t"}`), `{"jsonrpc":"2.0","id":4,"method":"ping"}`,
	)
	for _, id := range []string{`"id":1,`, `"id":2,`} {
		if got := s.recv(); !strings.Contains(got, id) {
			t.Errorf("got %s, want the answer with %s", got, id)
		}
	}
	close(listed)
	for _, id := range []string{`"id":3,`, `"id":4,`} {
		if got := s.recv(); !strings.Contains(got, id) {
			t.Errorf("got %s, want the answer with %s", got, id)
		}
	}
	s.endsClean()
}

// A session ends although its first call waits for the lists, and the call is
// refused.
func TestEndBeforeTheLists(t *testing.T) {
	engine := &fakeEngine{call: func(Request) { t.Error("the call came before the lists") }}
	for _, line := range []string{callLine(2, `{"server":"s","tool":"t"}`), `{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`} {
		s := start(t, Options{Engine: engine, Listed: make(chan struct{})})
		s.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, line)
		if got := s.recv(); !strings.Contains(got, `"id":1,`) {
			t.Errorf("got %s", got)
		}
		s.cancel()
		if got := s.recv(); !strings.Contains(got, `"id":2,`) || !strings.Contains(got, "shutting down") {
			t.Errorf("the call is answered with %s", got)
		}
		if err := s.wait(); err != nil {
			t.Error(err)
		}
	}
}

// A client keeps the name with which it came: settings say what clients of a name may
// do.
func TestNameOfAClientStays(t *testing.T) {
	peers := make(chan *Peer, 1)
	s := start(t, Options{MCP: newMCP(nil), Engine: &fakeEngine{}, Ready: func(p *Peer) { peers <- p }})
	peer := <-peers
	for i, name := range []string{"first", "second"} {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":%q,"version":"1"}}}`, i, name))
		if got := s.recv(); !strings.Contains(got, `"serverInfo"`) {
			t.Errorf("%s", got)
		}
		if got := peer.GetClientInfo().Name; got != "first" {
			t.Errorf("it is called %q", got)
		}
	}
	s.endsClean()
}
