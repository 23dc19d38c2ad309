package metamcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
)

// rpcLine is one message of metamcp's to a client.
type rpcLine struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

const allCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`

// asked is a client of an engine, over pipes, that answers what it is asked.
type asked struct {
	t      testing.TB
	caps   string // what it says that it can; "": nothing
	modern bool
	// reply answers a question; "" leaves it unanswered. It runs on a goroutine of
	// its own.
	reply func(q rpcLine) string
	meta  string // further members of _meta

	url  string // of a front over HTTP; "": pipes
	key  string // the bearer token there; "": none
	in   *os.File
	done chan struct{}

	mu      sync.Mutex
	last    int
	waiting map[string]chan rpcLine
	notes   []rpcLine // notifications
	asks    []rpcLine
	session string // over HTTP
	posts   sync.WaitGroup
}

// connectClient serves a client that answers with reply until the test ends.
func connectClient(t testing.TB, e *metamcp.Engine, c *asked) *asked {
	t.Helper()
	if c.url != "" {
		c.t, c.waiting = t, map[string]chan rpcLine{}
		t.Cleanup(c.posts.Wait)
		c.greet()
		return c
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.t, c.in, c.done, c.waiting = t, inW, make(chan struct{}), map[string]chan rpcLine{}
	served := make(chan error, 1)
	go func() {
		served <- e.ServeStdio(context.Background(), inR, outW)
		_ = outW.Close()
		_ = inR.Close()
	}()
	go c.read(outR)
	t.Cleanup(func() {
		_ = inW.Close()
		if err := <-served; err != nil {
			t.Log("serve:", err)
		}
		<-c.done
		_ = outR.Close()
	})
	c.greet()
	return c
}

func (c *asked) greet() {
	c.t.Helper()
	if c.caps == "" {
		c.caps = "{}"
	}
	if !c.modern {
		c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+c.caps+`,"clientInfo":{"name":"c","version":"1"}}`)
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
}

// post sends a message over HTTP, and takes what comes back.
func (c *asked) post(line string) {
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url, strings.NewReader(line))
	if err != nil {
		c.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	var m struct {
		Method string
		Params struct{ Name, URI string }
	}
	_ = json.Unmarshal([]byte(line), &m)
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	c.mu.Lock()
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	c.mu.Unlock()
	if c.modern {
		req.Header.Set("MCP-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", m.Method)
		if name := m.Params.Name + m.Params.URI; name != "" { // none has both
			req.Header.Set("Mcp-Name", name)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // the test is over
	}
	defer func() { _ = resp.Body.Close() }()
	c.mu.Lock()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	c.mu.Unlock()
	lines := bufio.NewReaderSize(resp.Body, 1<<20)
	for {
		text, err := lines.ReadBytes('\n')
		data, event := bytes.CutPrefix(text, []byte("data: "))
		if text = bytes.TrimSpace(data); len(text) > 0 && (event || text[0] == '{') {
			c.take(text, &c.posts)
		}
		if err != nil {
			return
		}
	}
}

func (c *asked) read(out *os.File) {
	defer close(c.done)
	lines := bufio.NewReaderSize(out, 1<<20)
	var replies sync.WaitGroup
	defer replies.Wait()
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		c.take(text, &replies)
	}
}

// take takes one message of metamcp's.
func (c *asked) take(text []byte, replies *sync.WaitGroup) {
	var l rpcLine
	if err := json.Unmarshal(text, &l); err != nil {
		c.t.Errorf("no JSON: %.200s", text)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case l.Method == "":
		if w := c.waiting[string(l.ID)]; w != nil {
			delete(c.waiting, string(l.ID))
			w <- l
		} else {
			c.t.Errorf("an answer that nobody waits for: %.300s", text)
		}
	case l.ID == nil:
		c.notes = append(c.notes, l)
	default:
		c.asks = append(c.asks, l)
		if c.reply != nil {
			replies.Go(func() {
				if body := c.reply(l); body != "" {
					c.send(`{"jsonrpc":"2.0","id":` + string(l.ID) + `,` + body + `}`)
				}
			})
		}
	}
}

// send sends a message. Over HTTP one that has no answer has arrived when it returns;
// the answer of any other comes in time.
func (c *asked) send(line string) {
	if c.url != "" {
		var l rpcLine
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Method == "" || l.ID == nil {
			c.post(line)
			return
		}
		c.posts.Go(func() { c.post(line) })
		return
	}
	_, _ = c.in.WriteString(line + "\n") // a client may be gone
}

func (c *asked) begin(method, params string) (id string, answer chan rpcLine) {
	answer = make(chan rpcLine, 1)
	c.mu.Lock()
	c.last++
	id = strconv.Itoa(c.last)
	c.waiting[id] = answer
	c.mu.Unlock()
	if c.modern {
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + c.caps + c.meta + `}`
		params = strings.TrimSuffix(params, "}") + "," + meta + "}"
	}
	c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`)
	return id, answer
}

func (c *asked) await(answer chan rpcLine) rpcLine {
	c.t.Helper()
	select {
	case l := <-answer:
		return l
	case <-time.After(time.Minute):
		c.t.Error("no answer within a minute")
		return rpcLine{}
	}
}

func (c *asked) ask(method, params string) rpcLine {
	c.t.Helper()
	_, answer := c.begin(method, params)
	return c.await(answer)
}

func callOf(server, tool, args string) string {
	return `{"name":"mcp_call","arguments":{"server":"` + server + `","tool":"` + tool + `","args":` + args + `}}`
}

// call calls a tool; a modern client goes on as long as it is asked.
func (c *asked) call(server, tool, args string) rpcLine {
	c.t.Helper()
	return c.rounds(callOf(server, tool, args))
}

func (c *asked) rounds(params string) rpcLine {
	c.t.Helper()
	more := ""
	for {
		l := c.ask("tools/call", strings.TrimSuffix(params, "}")+more+"}")
		var r struct {
			ResultType    string
			InputRequests map[string]rpcLine
			RequestState  json.RawMessage
		}
		_ = json.Unmarshal(l.Result, &r)
		if r.ResultType != "input_required" || c.reply == nil {
			return l
		}
		answers := map[string]json.RawMessage{}
		for key, q := range r.InputRequests {
			c.mu.Lock()
			c.asks = append(c.asks, q)
			c.mu.Unlock()
			body := c.reply(q)
			answers[key] = json.RawMessage(strings.TrimPrefix(body, `"result":`))
		}
		raw, err := json.Marshal(answers)
		if err != nil {
			c.t.Error(err)
		}
		more = `,"inputResponses":` + string(raw)
		if r.RequestState != nil {
			more += `,"requestState":` + string(r.RequestState)
		}
	}
}

func (c *asked) notified(method string) (all []rpcLine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.notes {
		if n.Method == method {
			all = append(all, n)
		}
	}
	return all
}

func (c *asked) questions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asks)
}

// textIn is the first text of a tool result.
func textIn(t testing.TB, l rpcLine) string {
	t.Helper()
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(l.Result, &r); err != nil || len(r.Content) == 0 {
		t.Errorf("no text in %s %s", l.Result, l.Error)
		return ""
	}
	return r.Content[0].Text
}

// answersOf reads what the demo server's tools that ask got back.
func answersOf(t testing.TB, l rpcLine) (answers []json.RawMessage, failure json.RawMessage) {
	t.Helper()
	var r struct {
		Answers []json.RawMessage
		Error   json.RawMessage
	}
	text := textIn(t, l)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Errorf("it says %q: %v", text, err)
	}
	return r.Answers, r.Error
}
