package front

import (
	"bufio"
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// Whatever a client sends, each line that comes back is a JSON-RPC message,
// there is at most one answer to a line, and Serve comes to its end.
func FuzzServe(f *testing.F) {
	for _, seed := range []string{
		"", "\n\n", "garbage\n", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r\n",
		callLine(1, `{"server":"s","tool":"t","args":{"a":1}}`) + "\n" + callLine(1, `{"server":"s","tool":"t"}`) + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n",
		`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":1},"name":"mcp_call","arguments":{"server":"s","tool":"t"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n",
		`[{"jsonrpc":"2.0"}]` + "\n" + `{"jsonrpc":"2.0","id":null,"method":"x"}` + "\n" + `{"jsonrpc":"2.0","id":{},"method":"x"}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tasks/list"}`,
	} {
		f.Add([]byte(seed))
	}
	engine := &fakeEngine{}
	engine.call = func(r Request) {
		if r.Progress != nil {
			r.Progress.Progress(r.Call, []byte(`{"progress":1}`))
		}
		if r.Tool == "err" {
			r.Reply.Answer(&messages.Answer{Err: &messages.Error{Code: messages.CodeConnection, Message: "x"}})
			return
		}
		r.Reply.Answer(&messages.Answer{Result: []byte(`{"content":[]}`)})
	}
	mcpServer := newMCP(nil)
	f.Fuzz(func(t *testing.T, input []byte) {
		inR, inW := pipe(t)
		outR, outW := pipe(t)
		ended := make(chan error, 1)
		go func() {
			err := Serve(context.Background(), inR, outW, Options{MCP: mcpServer, Engine: engine, MaxLine: 200_000, DrainTimeout: patience})
			_ = outW.Close()
			ended <- err
		}()
		go func() {
			_, _ = inW.Write(input)
			_ = inW.Close()
		}()
		if err := outR.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		answers := 0
		scanner := bufio.NewScanner(outR)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			m, err := jsonrpc.Parse(scanner.Bytes())
			if err != nil {
				t.Fatalf("the server sent %q: %v", scanner.Text(), err)
			}
			if m.Result != nil || m.Error != nil {
				answers++
			}
		}
		if err := scanner.Err(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatalf("Serve: %v", err)
		}
		if lines := bytes.Count(input, []byte{'\n'}) + 1; answers > lines {
			t.Fatalf("%d answers to %d lines", answers, lines)
		}
	})
}
