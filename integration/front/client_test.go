package front

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/messages"
)

// The client of mcp-go talks to Serve in every revision.
func TestClientEras(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			inR, inW := pipe(t)
			outR, outW := pipe(t)
			const progress = 50
			engine := &fakeEngine{}
			engine.call = func(r Request) {
				if want := messages.EraLegacy; (version != "2026-07-28") != (r.Era == want) {
					t.Errorf("era %s", r.Era)
				}
				go func() {
					if r.Progress != nil {
						for i := range progress {
							r.Progress.Progress(r.Call, fmt.Appendf(nil, `{"progressToken":1,"progress":%d}`, i))
						}
					}
					r.Reply.Answer(&messages.Answer{Result: echo(r)})
				}()
			}
			ended := make(chan error, 1)
			go func() {
				err := Serve(context.Background(), inR, outW, Options{MCP: newMCP(nil), Engine: engine, ServerInfo: []byte(testInfo)})
				_ = outW.Close()
				ended <- err
			}()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			stdio := transport.NewIO(outR, inW, nil)
			c := client.NewClient(stdio, client.WithProtocolVersion(version))
			if err := c.Start(ctx); err != nil {
				t.Fatal(err)
			}
			var seen atomic.Int64
			c.OnNotification(func(n mcp.JSONRPCNotification) {
				if n.Method == "notifications/progress" {
					seen.Add(1)
				}
			})
			var init mcp.InitializeRequest
			init.Params.ProtocolVersion = version
			init.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
			result, err := c.Initialize(ctx, init)
			if err != nil || result.ProtocolVersion != version {
				t.Fatalf("initialize: %+v, %v", result, err)
			}
			if tools, err := c.ListTools(ctx, mcp.ListToolsRequest{}); err != nil || len(tools.Tools) != 1 {
				t.Errorf("tools/list: %+v, %v", tools, err)
			}
			for i := range 20 {
				var call mcp.CallToolRequest
				call.Params.Name = "mcp_call"
				call.Params.Arguments = map[string]any{"server": "s", "tool": "t", "args": map[string]any{"i": i}}
				call.Params.Meta = &mcp.Meta{ProgressToken: fmt.Sprint("tok", i)}
				got, err := c.CallTool(ctx, call)
				if err != nil {
					t.Fatal(err)
				}
				content, err := json.Marshal(got.StructuredContent)
				if err != nil || string(content) != fmt.Sprintf(`{"i":%d}`, i) || got.IsError {
					t.Fatalf("call %d: %s, %v", i, content, err)
				}
			}
			if n := seen.Load(); n != 20*progress {
				t.Errorf("%d progress notifications, want %d", n, 20*progress)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			_ = inW.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
