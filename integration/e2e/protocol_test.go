package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/testkit"
)

func TestInitializeInEveryVersion(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"1999-01-01": "2025-11-25", // unknown: the newest that has a handshake
	} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			c := rawHost(t, servers{"x": testkit.DemoServer(t)}, nil)
			result, failure := c.ask("initialize", `{"protocolVersion":"`+asked+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
			var r struct {
				ProtocolVersion, Instructions string
				ServerInfo                    struct{ Name, Version string }
				Capabilities                  map[string]json.RawMessage
			}
			if err := json.Unmarshal(result, &r); err != nil {
				t.Fatalf("error %s: %v", failure, err)
			}
			if r.ProtocolVersion != want {
				t.Errorf("version %s, want %s", r.ProtocolVersion, want)
			}
			if r.ServerInfo.Name != "metamcp" || r.ServerInfo.Version == "" || r.Capabilities["tools"] == nil {
				t.Errorf("result %s", result)
			}
			if !strings.Contains(r.Instructions, "mcp_discover") || !strings.Contains(r.Instructions, "mcp_call") {
				t.Errorf("instructions %q", r.Instructions)
			}
			c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
			if pong, _ := c.ask("ping", `{}`); string(pong) != `{}` {
				t.Errorf("ping: %s", pong)
			}
			c.echo("x", "hello")
		})
	}
}

func TestServerDiscover(t *testing.T) {
	t.Parallel()
	c := modernHost(t, servers{"x": testkit.DemoServer(t)}, nil)
	result, failure := c.ask("server/discover", `{}`)
	var r struct {
		SupportedVersions []string
		Instructions      string
		ResultType        string
		Capabilities      map[string]json.RawMessage
	}
	if err := json.Unmarshal(result, &r); err != nil {
		t.Fatalf("error %s: %v", failure, err)
	}
	if !slices.Contains(r.SupportedVersions, "2026-07-28") || r.ResultType != "complete" || r.Capabilities["tools"] == nil || !strings.Contains(r.Instructions, "mcp_discover") {
		t.Errorf("result %s", result)
	}
	_, failure = c.Call(`"future"`, "tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01","io.modelcontextprotocol/clientCapabilities":{}}}`)
	if !strings.Contains(string(failure), "-32022") || !strings.Contains(string(failure), "2026-07-28") {
		t.Errorf("a revision that nobody speaks: %s", failure)
	}
	_, failure = c.Call(`"future call"`, "tools/call", `{"name":"mcp_call","arguments":{"server":"x","tool":"echo","args":{"text":"x"}},"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01","io.modelcontextprotocol/clientCapabilities":{}}}`)
	if !strings.Contains(string(failure), "-32022") {
		t.Errorf("a call in a revision that nobody speaks: %s", failure)
	}
	c.echo("x", "hello")
}

// What a client has in its context before anything is asked is small, and says
// plainly what each tool may do.
func TestToolDefinitions(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			t.Parallel()
			start := host
			if modern {
				start = func(t testing.TB, e servers, s map[string]any, _ ...string) *client { return modernHost(t, e, s) }
			}
			defs := definitions(t, start(t, servers{"x": testkit.DemoServer(t)}, nil))
			size := 0
			for _, name := range []string{"mcp_call", "mcp_discover", "mcp_execute", "mcp_provision"} {
				def := defs[name]
				size += len(def)
				var d struct {
					Description string
					InputSchema struct {
						Type       string
						Properties map[string]any
						Required   []string
					}
					Annotations struct {
						Title                                                        string
						ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint *bool
					}
				}
				if err := json.Unmarshal(def, &d); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				a := d.Annotations
				if a.Title == "" || a.ReadOnlyHint == nil || a.DestructiveHint == nil || a.IdempotentHint == nil || a.OpenWorldHint == nil {
					t.Errorf("%s leaves some annotations to be guessed: %s", name, def)
				}
				if d.Description == "" || d.InputSchema.Type != "object" || len(d.InputSchema.Properties) < 3 {
					t.Errorf("%s: %s", name, def)
				}
			}
			if tokens := size / 4; tokens >= 600 {
				t.Errorf("the definitions take about %d tokens", tokens)
			}
		})
	}
}

// The library's client, which shares nothing with the front, is content in
// both eras: it lists, calls, and hears progress.
func TestLibraryClient(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			p := testkit.StartHost(t, testkit.Host{Servers: servers{"x": testkit.DemoServer(t)}})
			connect := p.Legacy
			if era == "modern" {
				connect = p.Modern
			}
			c := connect(t)
			heard := make(chan mcp.JSONRPCNotification, 16)
			c.OnNotification(func(n mcp.JSONRPCNotification) { heard <- n })
			tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
			if err != nil || len(tools.Tools) < 2 {
				t.Fatalf("tools %+v: %v", tools, err)
			}
			if got := libraryCall(t, c, "mcp_call", map[string]any{"server": "x", "tool": "echo", "args": map[string]any{"text": "hello"}}, nil); got != "hello" {
				t.Errorf("echo: %q", got)
			}
			if got := libraryCall(t, c, "mcp_discover", map[string]any{"server": "x"}, nil); !strings.Contains(got, `"notes_add"`) {
				t.Errorf("mcp_discover: %q", got)
			}
			libraryCall(t, c, "mcp_call", map[string]any{"server": "x", "tool": "slow", "args": map[string]any{"ms": 10, "steps": 3}}, "token")
			for i := 1; i <= 3; i++ {
				select {
				case n := <-heard:
					if f := n.Params.AdditionalFields; n.Method != "notifications/progress" || fmt.Sprint(f["progress"]) != fmt.Sprint(i) || f["progressToken"] != "token" {
						t.Errorf("notification %d: %+v", i, n)
					}
				case <-t.Context().Done():
					t.Fatal("no progress is heard")
				}
			}
		})
	}
}

func libraryCall(t *testing.T, c *mcpclient.Client, tool string, args map[string]any, token any) string {
	t.Helper()
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = tool, args
	if token != nil {
		req.Params.Meta = &mcp.Meta{ProgressToken: token}
	}
	result, err := c.CallTool(t.Context(), req)
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	text, ok := mcp.AsTextContent(result.Content[0])
	if !ok || result.IsError {
		t.Fatalf("%s %v: %+v", tool, args, result)
	}
	return text.Text
}

// Progress comes in the child's order, with the client's own token, whole, and
// before the answer. Without a token there is none.
func TestProgress(t *testing.T) {
	t.Parallel()
	const steps = 1000
	for name, start := range map[string]func(*testing.T, servers) *client{
		"legacy": func(t *testing.T, e servers) *client { return host(t, e, nil) },
		"modern": func(t *testing.T, e servers) *client { return modernHost(t, e, nil) },
	} {
		for _, token := range []string{`"a \"token\" ü"`, `17`, `0`} {
			t.Run(name+token, func(t *testing.T) {
				t.Parallel()
				c := start(t, servers{"x": testkit.DemoServer(t)})
				c.echo("x", "ready")
				meta := `"_meta":{"progressToken":` + token + `}`
				if c.modern {
					meta = strings.TrimSuffix(modernMeta, "}") + `,"progressToken":` + token + `}`
				}
				id := c.id()
				c.Send([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":` +
					strings.TrimSuffix(callParams("x", "slow", fmt.Sprintf(`{"ms":300,"steps":%d}`, steps)), "}") + `,` + meta + `}}`))
				for i := 1; i <= steps; i++ {
					line, err := c.Match(patience, func(testkit.Line) bool { return true })
					if err != nil {
						t.Fatalf("progress %d: %v", i, err)
					}
					want := fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":%d,"message":"step %d of %d"}`, token, i, steps, i, steps)
					if !bytes.Contains(line, []byte(want)) {
						t.Fatalf("line %d is %s, want the progress %s", i, line, want)
					}
				}
				c.resultOf(id)
				c.call("x", "slow", `{"ms":10,"steps":10}`)
				noLines(t, c)
			})
		}
	}
}

func cancelled(id string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"enough"}}`)
}

// A cancelled call is cancelled at the child, and nobody gets an answer.
func TestCancellation(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			calls, cancels := tempFile(t, "calls"), tempFile(t, "cancels")
			c := host(t, servers{
				"x":    testkit.DemoServer(t, "--era", era, "--calls-file", calls, "--cancels-file", cancels),
				"late": testkit.DemoServer(t, "--start-delay", "700ms", "--calls-file", calls),
			}, nil)
			c.echo("x", "ready")
			first := c.start("x", "slow", `{"ms":600000}`)
			second := c.start("x", "slow", `{"ms":600000}`)
			third := c.start("x", "slow", `{"ms":900}`)
			eventually(t, "the calls do not reach the server", func() bool { return len(records(t, calls)) == 4 })
			c.Send(cancelled(first))
			c.Send(cancelled(first))
			c.Send(cancelled(second))
			c.Send(cancelled(second))
			c.Send(cancelled(`"never seen"`))
			c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`))
			c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`))
			eventually(t, "the server does not hear of it", func() bool { return len(records(t, cancels)) == 2 })
			c.resultOf(third)
			c.Send(cancelled(third))

			// Cancelled before the server was even up, a call never gets there.
			early := c.start("late", "echo", `{"text":"cancelled early"}`)
			c.Send(cancelled(early))
			c.echo("late", "kept")
			for _, r := range records(t, calls) {
				if strings.Contains(string(r.Args), "cancelled early") {
					t.Error("a call that was cancelled before it was sent has run")
				}
			}
			c.prompt("x")
			if n := len(records(t, cancels)); n != 2 {
				t.Errorf("%d calls were cancelled at the server", n)
			}
			noLines(t, c)
		})
	}
}

// Lines that are no proper requests get an error or nothing, and the session
// goes on.
func TestBadLines(t *testing.T) {
	t.Parallel()
	c := host(t, servers{"x": testkit.DemoServer(t)}, nil)
	for _, tt := range []struct{ name, line, id, code string }{
		{"half an object", `{`, `null`, "-32700"},
		{"no JSON", `hello?`, `null`, "-32700"},
		{"a trailing comma", `{"jsonrpc":"2.0","id":"comma","method":"ping",}`, `null`, "-32700"},
		{"two values", `{"jsonrpc":"2.0","id":"two","method":"ping"} {}`, `null`, "-32700"},
		{"a number", `42`, `null`, "-32600"},
		{"an empty batch", `[]`, `null`, "-32600"},
		{"an empty object", `{}`, `null`, "-32600"},
		{"no method", `{"jsonrpc":"2.0","params":{}}`, `null`, "-32600"},
		{"an unknown method", `{"jsonrpc":"2.0","id":"m","method":"no/such"}`, `"m"`, "-32601"},
		{"no tool name", `{"jsonrpc":"2.0","id":"t","method":"tools/call","params":{}}`, `"t"`, "-3260"},
	} {
		c.Send([]byte(tt.line))
		if got := string(c.Response(tt.id)); !strings.Contains(got, `"error"`) || !strings.Contains(got, `"code":`+tt.code) {
			t.Errorf("%s is answered with %s, want the error %s", tt.name, got, tt.code)
		}
		c.prompt("x")
	}
	for _, line := range []string{
		``, ` `, "\r", `{"jsonrpc":"2.0","method":"notifications/unknown","params":{"x":1}}`,
		`{"jsonrpc":"2.0","id":"nobody asked","result":{}}`, `{"jsonrpc":"2.0","id":77777,"error":{"code":1,"message":"m"}}`,
	} {
		c.Send([]byte(line))
	}
	c.Send([]byte("{\"jsonrpc\":\"2.0\",\"id\":\"crlf\",\"method\":\"ping\"}\r"))
	c.Response(`"crlf"`)
	c.prompt("x")
	noLines(t, c)
}

// A batch is answered in whole or refused in words; either way the session goes on.
func TestBatch(t *testing.T) {
	t.Parallel()
	c := host(t, servers{"x": testkit.DemoServer(t)}, nil)
	c.Send([]byte(`[{"jsonrpc":"2.0","id":"b1","method":"ping"},{"jsonrpc":"2.0","id":"b2","method":"ping"}]`))
	line, err := c.Match(patience, func(testkit.Line) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(line, []byte(`"code":-32600`)) && !bytes.HasPrefix(line, []byte(`[`)) && !bytes.Contains(line, []byte(`"b1"`)) {
		t.Errorf("answer %s", line)
	}
	c.prompt("x")
}

// Two requests with one id cannot be told apart: each gets an answer or a
// refusal, and the host stays well.
func TestTwoRequestsWithOneID(t *testing.T) {
	t.Parallel()
	c := host(t, servers{"x": testkit.DemoServer(t)}, nil)
	c.echo("x", "ready")
	for range 2 {
		c.Send([]byte(`{"jsonrpc":"2.0","id":"same","method":"tools/call","params":` + callParams("x", "slow", `{"ms":300}`) + `}`))
	}
	c.Response(`"same"`)
	c.Response(`"same"`)
	c.prompt("x")
	noLines(t, c)
}

// Large messages pass in both directions; what is too large is refused alone. The
// largest take the race detector half a minute, so their host is one without it,
// and they are not taken apart.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	small := host(t, servers{"x": testkit.DemoServer(t)}, nil)
	for _, size := range []int{1 << 10, 64 << 10, 65<<10 + 1, 1 << 20} {
		if got := len(textOf(t, small.call("x", "big", fmt.Sprintf(`{"bytes":%d}`, size)))); got != size {
			t.Errorf("%d bytes came of %d", got, size)
		}
	}
	c := plainHost(t, servers{"x": testkit.DemoServer(t)}, nil)
	whole := func(tool, args string) []byte {
		t.Helper()
		id := c.start("x", tool, args)
		line, err := c.Match(patience, func(l testkit.Line) bool { return string(l.ID) == id && l.Method == "" })
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		return line
	}
	const size, around = 32 << 20, 300
	if line := whole("big", fmt.Sprintf(`{"bytes":%d}`, size)); len(line) < size || len(line) > size+around || bytes.Contains(line[len(line)-around:], []byte(`"isError":true`)) {
		t.Errorf("%d bytes came of %d: %.300s", len(line), size, line)
	}
	text := `"` + strings.Repeat("0123456789abcdef ü ", 1<<20) + `"`
	if line := whole("echo", `{"text":`+text+`}`); !bytes.Contains(line, []byte(text)) {
		t.Errorf("%d bytes came of %d, or others", len(line), len(text))
	}
	c.Send([]byte(`{"jsonrpc":"2.0","id":"huge","method":"tools/call","params":` + callParams("x", "echo", `{"text":"`+strings.Repeat("x", 80<<20)+`"}`) + `}`))
	line, err := c.Match(patience, func(testkit.Line) bool { return true })
	if err != nil || len(line) > 10_000 || !bytes.Contains(line, []byte(`rror"`)) {
		t.Errorf("a line of 80 MiB: %v, answer %.300s", err, line)
	}
	c.prompt("x")
	noLines(t, c)
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	cancels := tempFile(t, "cancels")
	c := host(t, servers{
		"x":    testkit.DemoServer(t, "--cancels-file", cancels),
		"lazy": with(testkit.DemoServer(t), "timeoutMs", 2000),
	}, nil)
	c.echo("x", "ready")
	r := refusal(t, c.resultOf(c.request("tools/call", `{"name":"mcp_call","arguments":{"server":"x","tool":"slow","args":{"ms":600000},"timeoutMs":300}}`)))
	if r.Code != "TOOL_EXECUTION_TIMEOUT" || r.Hint == "" {
		t.Errorf("got %s", r)
	}
	eventually(t, "the call is not cancelled at the server", func() bool { return len(records(t, cancels)) == 1 })
	// Progress shows that the tool is at work.
	result := c.resultOf(c.request("tools/call", `{"name":"mcp_call","arguments":{"server":"lazy","tool":"slow","args":{"ms":4000,"steps":80}},"_meta":{"progressToken":1}}`))
	if !bytes.Contains(result, []byte("took 4000 ms")) {
		t.Errorf("a call with progress is answered with %s", result)
	}
	c.prompt("x")
}

// Each of 64 callers gets the answers to its own calls from each of 8 servers.
func TestManyCallersAndServers(t *testing.T) {
	t.Parallel()
	const callers, of = 64, 8
	entries := servers{}
	for i := range of {
		entries[fmt.Sprint("s", i)] = testkit.DemoServer(t, "--name", fmt.Sprint("s", i), "--era", []string{"legacy", "modern", "both"}[i%3])
	}
	c := host(t, entries, nil)
	failed := make(chan error, callers)
	for caller := range callers {
		go func() {
			failed <- func() error {
				for i := range of * 2 {
					server, text := fmt.Sprint("s", (caller+i)%of), fmt.Sprintf("caller %d call %d", caller, i)
					id := c.start(server, "echo", `{"text":"`+text+`"}`)
					line, err := c.Match(patience, func(l testkit.Line) bool { return string(l.ID) == id && l.Method == "" })
					if err != nil {
						return err
					}
					if !bytes.Contains(line, []byte(`"text":"`+text+`"`)) {
						return fmt.Errorf("%s on %s is answered with %s", text, server, line)
					}
				}
				return nil
			}()
		}()
	}
	for range callers {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	noLines(t, c)
}
