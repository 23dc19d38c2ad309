package front

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

// hangs is a tool that works until it is told to stop.
func hangs(started chan<- struct{}) server.ToolHandlerFunc {
	return func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

func TestDrainTimeout(t *testing.T) {
	started := make(chan struct{}, 1)
	engine := &fakeEngine{call: func(Request) { started <- struct{}{} }}
	for _, how := range []string{"end of input", "context", "what is left of it", "what is left at the end of input", "in a hurry", "in a hurry at the end of input"} {
		opts := Options{MCP: newMCP(map[string]server.ToolHandlerFunc{"hangs": hangs(started)}), Engine: engine, DrainTimeout: 30 * time.Millisecond}
		if strings.HasPrefix(how, "what is left") {
			opts.DrainTimeout, opts.DrainLeft = time.Hour, func(told bool) time.Duration {
				if told == strings.HasSuffix(how, "end of input") {
					return time.Hour
				}
				return -time.Second
			}
		}
		hurry := make(chan struct{})
		if strings.HasPrefix(how, "in a hurry") {
			opts.DrainTimeout, opts.Hurry = time.Hour, hurry
		}
		s := start(t, opts)
		s.send(callLine(1, `{"server":"s","tool":"t"}`))
		<-started
		s.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hangs"}}`)
		<-started
		close(hurry)
		if strings.HasSuffix(how, "end of input") {
			_ = s.in.Close()
		} else {
			s.cancel()
		}
		rest, err := s.end()
		all := strings.Join(rest, "\n")
		if err == nil || !strings.Contains(err.Error(), "2 requests") || len(rest) != 2 || strings.Count(all, "SHUTTING_DOWN") != 2 || strings.Count(all, "whether it did its work is unknown") != 2 || strings.Contains(all, `"error":{`) {
			t.Errorf("%s: %v, %s", how, err, all)
		}
	}
	if got := engine.reasons(); len(got) != 6 {
		t.Errorf("the engine was told of %d ends, want 6", len(got))
	}
}

// heard takes the answer to one question.
type heard chan *messages.QuestionAnswer

func (h heard) Answered(a *messages.QuestionAnswer) { h <- a }

// asks is a tool that asks its client once it may, and gives back the error that it is
// answered with; it works until then, or until it is told to stop.
func asks(started chan<- struct{}, may <-chan struct{}) server.ToolHandlerFunc {
	return func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		started <- struct{}{}
		<-may
		answer := make(heard, 1)
		CallerFromContext(ctx).Ask(0, []*messages.Question{{ID: 1, Method: "roots/list", Reply: answer}})
		select {
		case a := <-answer:
			return mcp.NewToolResultText(string(a.Error)), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

const callAsks = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asks","arguments":{},` + modernMeta + `}}`

// What is parked holds up no end: nobody could take it up. A tool that asks when its
// client can answer no more hears so, and goes on.
func TestEndWithAParkedRequest(t *testing.T) {
	now := make(chan struct{})
	close(now)
	t.Run("told to end", func(t *testing.T) {
		s := start(t, Options{MCP: newMCP(map[string]server.ToolHandlerFunc{"asks": asks(make(chan struct{}, 1), now)}), DrainTimeout: time.Hour})
		s.send(callAsks)
		if line := s.recv(); !strings.Contains(line, "input_required") {
			t.Fatalf("the call is answered with %s", line)
		}
		s.cancel()
		if err := s.wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("over HTTP", func(t *testing.T) {
		f := startHTTP(t, HTTPOptions{MCP: newMCP(map[string]server.ToolHandlerFunc{"asks": asks(make(chan struct{}, 1), now)}), DrainTimeout: time.Hour})
		if r := f.post(callAsks, modernHeaders("tools/call", "asks")); !strings.Contains(r.body, "input_required") {
			t.Fatalf("the call is answered with %s", r.body)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := f.l.Close(ctx); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	for _, how := range []string{"asks behind the end of the input", "asks when it is told to end"} {
		t.Run(how, func(t *testing.T) {
			started, may, ending := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
			s := start(t, Options{
				MCP:       newMCP(map[string]server.ToolHandlerFunc{"asks": asks(started, may)}),
				DrainLeft: func(bool) time.Duration { close(ending); return time.Hour },
			})
			s.send(callAsks)
			<-started
			inputEnds := how == "asks behind the end of the input"
			if inputEnds {
				_ = s.in.Close()
			} else {
				s.cancel()
			}
			<-ending
			close(may)
			// One that is told to end may still be asked at the very moment; that ends, too.
			if line := s.recv(); inputEnds && !strings.Contains(line, "it cannot answer") {
				t.Errorf("the call is answered with %s", line)
			}
			if err := s.wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// Where nothing is in flight any more, it is handlers that hold up the end.
func TestHandlerThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnection(t.Context(), Options{MCP: newMCP(nil), Engine: &fakeEngine{}}.withDefaults(), newStream(0))
		c.running.Add(1) // for a request that was cancelled
		defer c.running.Done()
		if err := c.drain(time.Second, nil, nil); err == nil || strings.Contains(err.Error(), "0 requests") {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestCancelled(t *testing.T) {
	started := make(chan struct{}, 1)
	held := make(chan Request, 1)
	engine := &fakeEngine{signal: make(chan struct{}, 8)}
	engine.call = func(r Request) { held <- r }
	stopped := make(chan struct{}, 1)
	s := start(t, Options{Engine: engine, MCP: newMCP(map[string]server.ToolHandlerFunc{
		"hangs": func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			defer func() { stopped <- struct{}{} }()
			return hangs(started)(ctx, r)
		},
	})})
	s.send(callLine(`"a"`, `{"server":"s","tool":"t"}`))
	r := <-held
	s.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hangs"}}`)
	<-started
	s.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if line := s.recv(); !strings.Contains(line, `"id":2,"error":{"code":-32600`) || !strings.Contains(line, "in flight") {
		t.Errorf("a second request with the same id: %s", line)
	}
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u0061","reason":"user pressed escape"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	<-engine.signal
	<-stopped
	if got := engine.reasons(); len(got) != 1 || got[0] != "user pressed escape" || !r.Cancelled.Load() {
		t.Errorf("reasons %q, flag %v", got, r.Cancelled.Load())
	}
	r.Reply.Answer(&messages.Answer{Result: json.RawMessage(`{}`)}) // too late
	s.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	s.expect(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	s.endsClean()
}

// A cancellation that overtakes a large request, which is still being checked,
// still finds it, and never is one request both answered and cancelled.
func TestCancelLargeRequest(t *testing.T) {
	var mu sync.Mutex
	calls := map[uint64]Request{}
	engine := &fakeEngine{}
	engine.call = func(r Request) {
		mu.Lock()
		defer mu.Unlock()
		calls[r.Call] = r
	}
	s := start(t, Options{Engine: engine, DrainTimeout: patience})
	args := strings.Repeat("x", 2<<20)
	const rounds = 10
	for i := range rounds {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"s","tool":"t","args":{"a":%q}}},"id":%d}`, args, i),
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
	}
	s.endsClean() // all are cancelled, so none is waited for
	mu.Lock()
	defer mu.Unlock()
	if begun := len(calls); begun != len(engine.reasons()) {
		t.Errorf("%d calls were begun and %d cancelled", begun, len(engine.reasons()))
	}
}

func TestTooManyInFlight(t *testing.T) {
	started := make(chan struct{}, 4)
	s := start(t, Options{MCP: newMCP(map[string]server.ToolHandlerFunc{"hangs": hangs(started)}), MaxConcurrent: 2})
	for i := range 2 {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hangs"}}`, i))
		<-started
	}
	s.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if line := s.recv(); !strings.Contains(line, `"id":2,"error":{"code":-32000,"message":"too many requests in flight`) {
		t.Errorf("got %s", line)
	}
	// The spliced tool has its own bounds, in the engine.
	s.send(callLine(3, `{"server":"s","tool":"t"}`))
	if line := s.recv(); !strings.Contains(line, `"id":3,"result"`) {
		t.Errorf("got %s", line)
	}
	for i := range 2 {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
	}
	s.endsClean()
}

func TestPanickingHandler(t *testing.T) {
	s := start(t, Options{MCP: newMCP(map[string]server.ToolHandlerFunc{
		"panics": func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("on purpose") },
	})})
	s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"panics"}}`)
	if line := s.recv(); !strings.Contains(line, `"id":1,"error":{"code":-32603`) {
		t.Errorf("got %s", line)
	}
	s.endsClean()
}

func TestClientGoneWhileBusy(t *testing.T) {
	started := make(chan struct{}, 1)
	engine := &fakeEngine{call: func(r Request) {
		if r.Tool == "hold" {
			started <- struct{}{}
			return
		}
		r.Reply.Answer(&messages.Answer{Result: echo(r)})
	}}
	s := start(t, Options{Engine: engine, DrainTimeout: patience})
	s.send(callLine(1, `{"server":"s","tool":"hold"}`))
	<-started
	_ = s.out.Close()
	s.send(callLine(2, `{"server":"s","tool":"t"}`))
	if err := s.wait(); err == nil || len(engine.reasons()) != 1 {
		t.Errorf("a client that is gone: %v, %d calls ended", err, len(engine.reasons()))
	}
}

func TestSubscriptions(t *testing.T) {
	mcpServer := newMCP(nil)
	s := start(t, Options{MCP: mcpServer})
	modern := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	// Not subscribed: a modern client gets nothing.
	s.send(`{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{` + modern + `}}`)
	s.recv()
	mcpServer.SendNotificationToAllClients(mcp.MethodNotificationToolsListChanged, nil)
	for _, id := range []string{`"one"`, `2`} {
		s.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{` + modern + `,"notifications":{"toolsListChanged":true}}}`)
		if line := s.recv(); !strings.Contains(line, "subscriptions/acknowledged") || !strings.Contains(line, id) {
			t.Errorf("got %s", line)
		}
	}
	mcpServer.SendNotificationToAllClients(mcp.MethodNotificationToolsListChanged, nil)
	got := s.recv() + s.recv()
	for _, id := range []string{`"one"`, `2`} {
		if !strings.Contains(got, `"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+id+`}}`) {
			t.Errorf("%s: got %s", id, got)
		}
	}
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	// The end of the input ends the other stream without waiting.
	rest, err := s.end()
	if err != nil || len(rest) != 1 || !strings.Contains(rest[0], `"id":"one","result":{`) {
		t.Errorf("the end: %v, %q", err, rest)
	}
}
