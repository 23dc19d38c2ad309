package front

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

const someCall = `{"server":"s","tool":"t","args":{"n":1}}`

// A legacy client: handshake, calls, and the end of its session.
func TestHTTPLegacySession(t *testing.T) {
	f := startHTTP(t, HTTPOptions{})
	hs := f.open()
	r := f.post("\n"+callLine(7, "{\n"+`"server":"s","tool":"t","args":{"n":1}}`), hs)
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "application/json" ||
		r.body != `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"s/t"}],"structuredContent":{"n":1}}}` {
		t.Errorf("a call: %d, %s", r.StatusCode, r.body)
	}
	if r := f.post(`{"jsonrpc":"2.0","id":8,"method":"tools/list"}`, hs); r.StatusCode != http.StatusOK || !strings.Contains(r.body, `"mcp_call"`) {
		t.Errorf("tools/list: %d, %s", r.StatusCode, r.body)
	}
	if r := f.post(`{"jsonrpc":"2.0","id":9,"method":"nope"}`, hs); r.StatusCode != http.StatusOK || !strings.Contains(r.body, "-32601") {
		t.Errorf("an unknown method: %d, %s", r.StatusCode, r.body)
	}
	if r := f.post(`{"jsonrpc":"2.0","id":99,"result":{}}`, hs); r.StatusCode != http.StatusAccepted {
		t.Errorf("an answer that nobody asked for: %d, %s", r.StatusCode, r.body)
	}
	if r := f.do("DELETE", "", hs); r.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %d, %s", r.StatusCode, r.body)
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		body := ""
		if method == "POST" {
			body = callLine(10, someCall)
		}
		if r := f.do(method, body, hs); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s after DELETE: %d, %s", method, r.StatusCode, r.body)
		}
	}
	if f.h.Sessions() != 0 || f.endedSessions() != 1 {
		t.Errorf("%d sessions are left, %d ended", f.h.Sessions(), f.endedSessions())
	}
}

// What is refused, with which status, and that nothing reaches the engine.
func TestHTTPRefusals(t *testing.T) {
	f := startHTTP(t, HTTPOptions{MaxBody: 1000, Origins: []string{"https://app.example"}, Hosts: []string{"gateway.example"}})
	f.engine.call = func(r Request) { t.Errorf("a call of %s reached the engine", r.Tool); (&fakeEngine{}).Call(r) }
	hs := f.open()
	with := func(more headers) headers {
		all := headers{}
		for _, m := range []headers{hs, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	call := callLine(1, someCall)
	modern := func(change ...string) headers {
		h := modernHeaders("tools/call", "mcp_call")
		for name := range slices.Chunk(change, 2) {
			h[name[0]] = name[1]
		}
		return h
	}
	mcall := modernCall(5, someCall, "")
	for _, c := range []struct {
		name, method, body string
		hs                 headers
		status             int
		says               string
	}{
		{"no session", "POST", call, nil, 400, "Mcp-Session-Id"},
		{"forged session", "POST", call, with(headers{"Mcp-Session-Id": "0123456789012345678901234567890123456789012"}), 404, "no such session"},
		{"unknown revision", "POST", call, with(headers{"Mcp-Protocol-Version": "2020-01-01"}), 400, "2020-01-01"},
		{"foreign host", "POST", call, with(headers{"Host": "evil.example"}), 403, "allowedHosts"},
		{"foreign address", "POST", call, with(headers{"Host": "10.1.2.3:80"}), 403, "allowedHosts"},
		{"foreign origin", "POST", call, with(headers{"Origin": "https://evil.example"}), 403, "allowedOrigins"},
		{"null origin", "POST", call, with(headers{"Origin": "null"}), 403, "allowedOrigins"},
		{"neighbour's origin", "POST", call, with(headers{"Origin": "http://127.0.0.1:1"}), 403, "allowedOrigins"},
		{"preflight of a foreign origin", "OPTIONS", "", headers{"Origin": "https://evil.example"}, 403, "allowedOrigins"},
		{"text", "POST", call, with(headers{"Content-Type": "text/plain"}), 415, "application/json"},
		{"packed", "POST", call, with(headers{"Content-Encoding": "gzip"}), 415, "Content-Encoding"},
		{"accepts html", "POST", call, with(headers{"Accept": "text/html"}), 406, "text/event-stream"},
		{"a browser", "GET", "", headers{"Accept": "text/html"}, 406, "for programs"},
		{"stream without session", "GET", "", headers{"Accept": "text/event-stream"}, 400, "Mcp-Session-Id"},
		{"event of nobody", "GET", "", with(headers{"Last-Event-ID": "77-3"}), 400, "Last-Event-ID"},
		{"event of nothing", "GET", "", with(headers{"Last-Event-ID": "x"}), 400, "Last-Event-ID"},
		{"huge", "POST", callLine(1, `{"server":"s","tool":"t","args":{"x":"`+strings.Repeat("x", 2000)+`"}}`), hs, 413, "maxBodyKb"},
		{"batch", "POST", "[" + call + "]", hs, 400, "batch"},
		{"no JSON", "POST", "{", hs, 400, "-32700"},
		{"no message", "POST", "{}", hs, 400, "-32600"},
		{"null id", "POST", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, hs, 400, "null"},
		{"put", "PUT", call, hs, 405, "POST"},
		{"a failed handshake", "POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}`, nil, 200, "error"},

		{"modern GET", "GET", "", headers{"Mcp-Protocol-Version": "2026-07-28"}, 405, "subscriptions/listen"},
		{"modern DELETE", "DELETE", "", with(headers{"Mcp-Protocol-Version": "2026-07-28"}), 405, "subscriptions/listen"},
		{"no version header", "POST", mcall, modern("Mcp-Protocol-Version", ""), 400, "-32020"},
		{"other version header", "POST", mcall, modern("Mcp-Protocol-Version", "2025-11-25"), 400, "-32020"},
		{"no method header", "POST", mcall, modern("Mcp-Method", ""), 400, "-32020"},
		{"other method header", "POST", mcall, modern("Mcp-Method", "tools/list"), 400, "-32020"},
		{"no name header", "POST", mcall, modern("Mcp-Name", ""), 400, "-32020"},
		{"other name header", "POST", mcall, modern("Mcp-Name", "mcp_discover"), 400, "-32020"},
		{"no version in the body", "POST", call, modern(), 400, "-32602"},
		{
			"unknown version", "POST", strings.ReplaceAll(mcall, "2026-07-28", "2099-01-01"), modern("Mcp-Protocol-Version", "2099-01-01"), 400,
			`"code":-32022,"message":"unsupported protocol version \"2099-01-01\"","data":{"supported":["2026-07-28","2025-11-25"`,
		},
		{"no capabilities", "POST", strings.Replace(mcall, `,"io.modelcontextprotocol/clientCapabilities":{}`, "", 1), modern(), 400, "-32602"},
		{"a name twice", "POST", strings.Replace(mcall, `"name":"mcp_call"`, `"name":"mcp_discover","name":"mcp_call"`, 1), modern("Mcp-Name", "mcp_discover"), 400, `"code":-32600,"message":"invalid JSON-RPC message: the member \"name\" stands there twice`},
		{"a name in two cases", "POST", strings.Replace(mcall, `"name":"mcp_call"`, `"name":"mcp_call","NAME":"mcp_discover"`, 1), modern("Mcp-Name", "mcp_discover"), 400, `\"NAME\" looks like \"name\"`},
		{"a method in two cases", "POST", strings.Replace(mcall, `"method":`, `"method":"tools/list","Method":`, 1), modern("Mcp-Method", "tools/list"), 400, `\"Method\" looks like \"method\"`},
		{"legacy method in two cases", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"mcp_call"}}`, hs, 400, "-32600"},
		{"unknown method", "POST", `{"jsonrpc":"2.0","id":5,"method":"nope","params":{` + modernMeta + `}}`, modern("Mcp-Method", "nope", "Mcp-Name", ""), 404, "-32601"},
		{"an answer", "POST", `{"jsonrpc":"2.0","id":5,"result":{}}`, modern(), 400, "inputResponses"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := f.do(c.method, c.body, c.hs)
			if r.StatusCode != c.status || !strings.Contains(r.body, c.says) || !json.Valid([]byte(r.body)) {
				t.Errorf("%d, want %d, with %q: %s", r.StatusCode, c.status, c.says, r.body)
			}
			if c.name == "a failed handshake" && r.Header.Get("Mcp-Session-Id") != "" {
				t.Error("there is a session after a handshake that failed")
			}
		})
	}
	if r := f.do("GET", "", headers{"Accept": "*/*"}); r.StatusCode != http.StatusBadRequest {
		t.Errorf("%d, %s", r.StatusCode, r.body)
	}
	if n := f.h.Sessions(); n > 2 {
		t.Errorf("%d sessions after one handshake and modern requests of one client", n)
	}
}

// Pages of origins that the settings name may talk to the server, and its own
// names are its own.
func TestHTTPOriginsThatAreAllowed(t *testing.T) {
	f := startHTTP(t, HTTPOptions{Origins: []string{"https://app.example/", "http://Local.example:80", "https://mixed.example:80"}, Hosts: []string{"gateway.example"}})
	own := "http://" + strings.TrimSuffix(strings.TrimPrefix(f.l.URL(), "http://"), Endpoint)
	for _, c := range []headers{
		{"Origin": "https://app.example"}, {"Origin": "http://local.example"}, {"Origin": "https://mixed.example:80"}, {"Origin": own}, {"Host": "gateway.example"}, {"Host": "gateway.example:8443"},
		{"Host": "localhost"}, {"Host": "[::1]:80"}, {"Host": "LOCALHOST:1"},
	} {
		r := f.post(initLine("2025-11-25"), c)
		if r.StatusCode != http.StatusOK || r.Header.Get("Access-Control-Allow-Origin") != c["Origin"] {
			t.Errorf("%v: %d, %v, %s", c, r.StatusCode, r.Header, r.body)
		}
	}
	r := f.do("OPTIONS", "", headers{"Origin": "https://app.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,mcp-param-x"})
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Headers") != "authorization,mcp-param-x" || !strings.Contains(r.Header.Get("Access-Control-Allow-Methods"), "DELETE") {
		t.Errorf("preflight: %d, %v", r.StatusCode, r.Header)
	}
}

// held is a call that waits until the test answers it.
type held struct {
	calls chan Request
}

func hold(f *httpFront) *held {
	h := &held{make(chan Request, 1000)}
	f.engine.call = func(r Request) { h.calls <- r }
	return h
}

func (h *held) next(t testing.TB) Request {
	t.Helper()
	select {
	case r := <-h.calls:
		return r
	case <-time.After(patience):
		t.Fatal("no call comes")
		return Request{}
	}
}

func answer(r Request) { r.Reply.Answer(&messages.Answer{Call: r.Call, Result: echo(r)}) }

// How a request came is told with it, to the engine and to a handler of mcp-go.
func TestTransportOfARequest(t *testing.T) {
	came := make(chan messages.Transport, 2)
	call := func(r Request) { came <- r.Transport; answer(r) }
	tools := map[string]server.ToolHandlerFunc{"other": func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		came <- CallerFromContext(ctx).Transport()
		return mcp.NewToolResultText(""), nil
	}}
	other := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"other","arguments":{}}}`
	check := func(want messages.Transport) {
		t.Helper()
		for _, what := range []string{"the spliced tool", "another tool"} {
			if got := <-came; got != want {
				t.Errorf("a call of %s came over %q, want %q", what, got, want)
			}
		}
	}
	s := start(t, Options{MCP: newMCP(tools), Engine: &fakeEngine{call: call}})
	s.send(callLine(1, someCall), other)
	s.recv()
	s.recv()
	s.endsClean()
	check(messages.TransportStdio)
	f := startHTTP(t, HTTPOptions{MCP: newMCP(tools)})
	f.engine.call = call
	hs := f.open()
	f.post(callLine(1, someCall), hs)
	f.post(other, hs)
	check(messages.TransportHTTP)
}

// Progress makes the response a stream, on which it comes before the answer, in
// order and whole.
func TestHTTPProgress(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			f := startHTTP(t, HTTPOptions{})
			calls := hold(f)
			var st *eventStream
			opened := make(chan struct{})
			hs, body := headers(nil), ""
			if era == "legacy" {
				hs = f.open()
				body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":` + someCall + `,"_meta":{"progressToken":"p"}}}`
			} else {
				hs, body = modernHeaders("tools/call", "mcp_call"), modernCall(1, someCall, `"p"`)
			}
			go func() { defer close(opened); st = f.stream("POST", body, hs) }()
			r := calls.next(t)
			const n = 500
			go func() {
				for i := range n {
					r.Progress.Progress(r.Call, fmt.Appendf(nil, `{"progressToken":1,"progress":%d}`, i))
				}
				answer(r)
			}()
			<-opened
			ids := map[string]bool{}
			for i := range n {
				e := st.want(fmt.Sprintf(`{"progressToken":"p","progress":%d}`, i))
				if legacy := era == "legacy"; legacy != (e.id != "") || ids[e.id] && legacy {
					t.Fatalf("event %+v", e)
				}
				ids[e.id] = true
			}
			st.want(`"id":1,"result"`)
			st.ends()
		})
	}
}

// streamed is a legacy call that has become a stream, with progress 1 on it.
func (f *httpFront) streamed(calls *held, hs headers) (Request, *eventStream) {
	f.t.Helper()
	opened := make(chan *eventStream, 1)
	go func() {
		opened <- f.stream("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":`+someCall+`,"_meta":{"progressToken":"p"}}}`, hs)
	}()
	r := calls.next(f.t)
	r.Progress.Progress(r.Call, []byte(`{"progress":1}`))
	return r, <-opened
}

// A legacy client that loses its connection does not cancel the call, and comes
// back for the answer.
func TestHTTPResumption(t *testing.T) {
	f := startHTTP(t, HTTPOptions{})
	calls := hold(f)
	hs := f.open()
	r, st := f.streamed(calls, hs)
	first := st.want(`"progress":1`)
	st.cancel()
	r.Progress.Progress(r.Call, []byte(`{"progress":2}`))
	resume := func(after sse) *eventStream {
		h := headers{"Last-Event-ID": after.id}
		for k, v := range hs {
			h[k] = v
		}
		return f.stream("GET", "", h)
	}
	again := resume(first)
	second := again.want(`"progress":2`)
	again.cancel()
	if r.Cancelled.Load() {
		t.Error("the disconnect cancelled the call")
	}
	answer(r)
	// The answer is there as often as it is asked for, and what came before it.
	for range 2 {
		last := resume(second)
		last.want(`"id":1,"result"`)
		last.ends()
	}
	all := resume(first)
	all.want(`"progress":2`)
	all.want(`"id":1,"result"`)
	all.ends()
	if reasons := f.engine.reasons(); len(reasons) > 0 {
		t.Errorf("cancelled: %q", reasons)
	}
}

// A call that takes a while becomes a stream before anything is said, so that a
// client can come back for it.
func TestHTTPLongCallBecomesAStream(t *testing.T) {
	f := startHTTP(t, HTTPOptions{KeepAlive: 10 * time.Millisecond})
	calls := hold(f)
	hs := f.open()
	st := f.stream("POST", callLine(1, someCall), hs) // returns with the headers
	line, err := st.lines.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "id: ") {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	answer(calls.next(t))
	st.want(`"id":1,"result"`)
	st.ends()
}

// A modern client that closes the response cancels the call; one that sends
// nothing else is served without a session.
func TestHTTPModernDisconnectCancels(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		f := startHTTP(t, HTTPOptions{})
		calls := hold(f)
		ctx, cancel := context.WithCancel(t.Context())
		token := ""
		if streaming {
			token = "1"
		}
		req := f.request(ctx, "POST", modernCall(1, someCall, token), modernHeaders("tools/call", "mcp_call"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if res, err := f.client.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}()
		r := calls.next(t)
		if r.Era != messages.EraModern {
			t.Errorf("era %s", r.Era)
		}
		if streaming {
			r.Progress.Progress(r.Call, []byte(`{"progress":1}`))
		}
		cancel()
		<-done
		select {
		case <-f.engine.signal:
		case <-time.After(patience):
			t.Fatal("the call was not cancelled")
		}
		if !r.Cancelled.Load() {
			t.Error("the call is not marked")
		}
		answer(r) // goes nowhere
	}
}

// Requests of several modern clients may have the same id.
func TestHTTPModernIDsMeet(t *testing.T) {
	f := startHTTP(t, HTTPOptions{})
	calls := hold(f)
	var wg sync.WaitGroup
	const n = 5
	for i := range n {
		wg.Go(func() {
			r := f.post(modernCall(1, fmt.Sprintf(`{"server":"s","tool":"t","args":{"n":%d}}`, i), ""), modernHeaders("tools/call", "mcp_call"))
			if r.StatusCode != http.StatusOK || !strings.Contains(r.body, fmt.Sprintf(`"structuredContent":{"n":%d}`, i)) || !strings.Contains(r.body, `/serverInfo"`) {
				t.Errorf("%d: %s", r.StatusCode, r.body)
			}
		})
	}
	var all []Request
	for range n {
		all = append(all, calls.next(t))
	}
	for _, r := range all {
		answer(r)
	}
	wg.Wait()
	if n := f.h.Sessions(); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// subscriptions/listen: acknowledged first, everything tagged, ended with the
// connection.
func TestHTTPListen(t *testing.T) {
	s := server.NewMCPServer("metamcp", "1", server.WithToolCapabilities(true))
	f := startHTTP(t, HTTPOptions{MCP: s})
	listen := func(id string) *eventStream {
		body := `{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`
		st := f.stream("POST", body, modernHeaders("subscriptions/listen", ""))
		e := st.want("notifications/subscriptions/acknowledged")
		if !strings.Contains(e.data, `"io.modelcontextprotocol/subscriptionId":`+id) || e.id != "" {
			t.Fatalf("acknowledged: %+v", e)
		}
		return st
	}
	a, b, big := listen("1"), listen("1"), listen("12345678901234567890")
	add := func(name string) {
		s.AddTool(mcp.NewTool(name), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	}
	add("one")
	for _, st := range []*eventStream{a, b} {
		st.want(`"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`)
	}
	big.want(`{"io.modelcontextprotocol/subscriptionId":12345678901234567890}`)
	a.cancel()
	sessions := f.h.scopes
	eventually(t, "the end of a subscription", func() bool {
		f.h.mu.Lock()
		defer f.h.mu.Unlock()
		for _, s := range sessions {
			return s.c.inFlight() == 2
		}
		return false
	})
	add("two")
	b.want("list_changed")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.l.Close(ctx); err != nil {
		t.Error(err)
	}
	b.want(`"id":1,"result"`)
	b.ends()
}

// What belongs to no request comes on the one GET stream of a session; a newer
// one takes over, and what came meanwhile is not lost.
func TestHTTPGetStream(t *testing.T) {
	f := startHTTP(t, HTTPOptions{KeepAlive: 5 * time.Millisecond})
	hs := f.open()
	notify := func(n int) {
		if err := f.peer(0).Notify("notifications/message", fmt.Appendf(nil, `{"n":%d}`, n)); err != nil {
			t.Fatal(err)
		}
	}
	notify(1)
	a := f.stream("GET", "", hs)
	first := a.want(`{"n":1}`)
	notify(2)
	a.want(`{"n":2}`)
	b := f.stream("GET", "", hs)
	a.ends()
	notify(3)
	b.want(`{"n":3}`)
	b.cancel()
	h := headers{"Last-Event-ID": first.id}
	for k, v := range hs {
		h[k] = v
	}
	c := f.stream("GET", "", h)
	c.want(`{"n":2}`)
	c.want(`{"n":3}`)
	notify(4)
	c.want(`{"n":4}`)
	if r := f.do("DELETE", "", hs); r.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %d", r.StatusCode)
	}
	c.ends()
}

// A client that never reads its stream costs a bounded memory.
func TestHTTPUnreadStreamIsBounded(t *testing.T) {
	f := startHTTP(t, HTTPOptions{})
	f.open()
	params := []byte(`{"x":"` + strings.Repeat("x", 1000) + `"}`)
	for range 10_000 {
		_ = f.peer(0).Notify("notifications/message", params)
	}
	for _, s := range f.h.sessions {
		if s.general.size > maxUnasked {
			t.Errorf("%d bytes wait", s.general.size)
		}
	}
}

// A cancelled request gets no answer, and its response ends.
func TestHTTPCancel(t *testing.T) {
	f := startHTTP(t, HTTPOptions{})
	calls := hold(f)
	hs := f.open()
	got := make(chan *reply, 1)
	go func() { got <- f.post(callLine(`"a"`, someCall), hs) }()
	r := calls.next(t)
	if r := f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a","reason":"enough"}}`, hs); r.StatusCode != http.StatusAccepted {
		t.Errorf("%d, %s", r.StatusCode, r.body)
	}
	if res := <-got; res.StatusCode != http.StatusAccepted || res.body != "" {
		t.Errorf("the cancelled request: %d, %s", res.StatusCode, res.body)
	}
	if reasons := f.engine.reasons(); len(reasons) != 1 || reasons[0] != "enough" {
		t.Errorf("reasons %q", reasons)
	}
	answer(r)
}

// The end: what is in flight is answered, streams end, nothing new begins.
func TestHTTPDrain(t *testing.T) {
	f := startHTTP(t, HTTPOptions{DrainTimeout: patience})
	calls := hold(f)
	hs := f.open()
	got := make(chan *reply, 1)
	go func() { got <- f.post(callLine(1, someCall), hs) }()
	r := calls.next(t)
	st := f.stream("GET", "", hs)
	closed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		closed <- f.l.Close(ctx)
	}()
	st.ends()
	if r := f.post(initLine("2025-11-25"), nil); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("a new session: %d, %s", r.StatusCode, r.body)
	}
	if r := f.post(callLine(2, someCall), hs); !strings.Contains(r.body, "shutting down") {
		t.Errorf("a new call: %d, %s", r.StatusCode, r.body)
	}
	answer(r)
	if res := <-got; !strings.Contains(res.body, `"structuredContent":{"n":1}`) {
		t.Errorf("the call in flight: %d, %s", res.StatusCode, res.body)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := f.try("POST", initLine("2025-11-25"), nil); err == nil {
		t.Error("there is still somebody who answers")
	}
}

// What is not answered in time is answered with an error.
func TestHTTPDrainCutsOff(t *testing.T) {
	hurry := make(chan struct{})
	close(hurry)
	for _, opts := range []HTTPOptions{
		{DrainTimeout: time.Hour, Hurry: hurry},
		{DrainTimeout: 20 * time.Millisecond},
		{DrainTimeout: time.Hour, DrainLeft: func() time.Duration { return 20 * time.Millisecond }},
		{DrainTimeout: time.Hour, DrainLeft: func() time.Duration { return 0 }},
	} {
		f := startHTTP(t, opts)
		calls := hold(f)
		hs := f.open()
		got := make(chan *reply, 1)
		go func() { got <- f.post(callLine(1, someCall), hs) }()
		calls.next(t)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := f.l.Close(ctx)
		cancel()
		if err == nil {
			t.Error("Close does not say what was cut off")
		}
		if res := <-got; !strings.Contains(res.body, "SHUTTING_DOWN") {
			t.Errorf("the call in flight: %d, %s", res.StatusCode, res.body)
		}
	}
}

// What clients left behind is bounded, whoever it is that never comes back; the
// newest of one's answers is there all the same.
func TestHTTPAnswersLeftBehindAreBounded(t *testing.T) {
	f := startHTTP(t, HTTPOptions{})
	const size = 1 << 20
	big := append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), size)...), `"}`...)
	calls := hold(f)
	hs := f.open()
	var last sse
	for i := range 3 * maxStreamBytes / size {
		opened := make(chan *eventStream, 1)
		go func() {
			opened <- f.stream("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp_call","arguments":%s,"_meta":{"progressToken":1}}}`, i, someCall), hs)
		}()
		r := calls.next(t)
		r.Progress.Progress(r.Call, []byte(`{"progress":1}`))
		st := <-opened
		last = st.want(`"progress":1`)
		st.cancel()
		r.Reply.Answer(&messages.Answer{Call: r.Call, Result: big})
	}
	if held := f.h.held.Load(); held > maxStreamBytes+2*size {
		t.Errorf("%d bytes are held", held)
	}
	h := headers{"Last-Event-ID": last.id}
	for k, v := range hs {
		h[k] = v
	}
	st := f.stream("GET", "", h)
	st.want(`"result":{"x":"xxx`)
	st.ends()
	if r := f.do("DELETE", "", hs); r.StatusCode != http.StatusNoContent || f.h.held.Load() != 0 {
		t.Errorf("%d; %d bytes are held without a session", r.StatusCode, f.h.held.Load())
	}
}
