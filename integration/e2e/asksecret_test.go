package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// urlClient is a client that sends its user to addresses, over one way and in one
// era. It keeps all that it is told.
type urlClient struct {
	t      *testing.T
	modern bool
	lines  *testkit.Lines // nil: over HTTP
	url    string
	value  string // that its user enters

	session string
	said    bytes.Buffer
}

const urlCapability = `{"elicitation":{"url":{}}}`

// exchange sends a message, and calls each with every message that comes until the
// answer to it has come.
func (c *urlClient) exchange(id, message string, each func(m testkit.Line)) testkit.Line {
	c.t.Helper()
	if c.lines != nil {
		c.lines.Send([]byte(message))
		for {
			raw, err := c.lines.Match(patience, func(testkit.Line) bool { return true })
			if err != nil {
				c.t.Fatal(err)
			}
			if m := c.heard(raw); string(m.ID) == id && m.Method == "" {
				return m
			} else if each != nil {
				each(m)
			}
		}
	}
	var answer testkit.Line
	c.post(message, func(m testkit.Line) {
		if string(m.ID) == id && m.Method == "" {
			answer = m
		} else if each != nil {
			each(m)
		}
	})
	return answer
}

func (c *urlClient) heard(raw []byte) testkit.Line {
	c.said.Write(raw)
	var m testkit.Line
	_ = json.Unmarshal(raw, &m) // a line that is none has no members
	return m
}

func (c *urlClient) post(message string, each func(m testkit.Line)) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url, strings.NewReader(message))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.modern {
		req.Header.Set("MCP-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", "mcp_call")
	} else if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	for text := range readLines(resp.Body) {
		data := bytes.TrimPrefix(text, []byte("data: "))
		if len(data) > 0 && data[0] == '{' {
			each(c.heard(data))
		}
	}
}

// readLines yields the lines of a stream as they come.
func readLines(from io.Reader) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		var rest []byte
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			rest = append(rest, buf[:n]...)
			for {
				line, after, found := bytes.Cut(rest, []byte("\n"))
				if !found {
					break
				}
				if !yield(bytes.TrimSpace(line)) {
					return
				}
				rest = after
			}
			if err != nil {
				yield(bytes.TrimSpace(rest))
				return
			}
		}
	}
}

// call calls a tool of the server "x", and goes where it is sent to.
func (c *urlClient) call(id, text string) string {
	c.t.Helper()
	var browsing sync.WaitGroup
	defer browsing.Wait()
	visit := func(params json.RawMessage) {
		var p struct{ Mode, URL string }
		if err := json.Unmarshal(params, &p); err != nil || p.Mode != "url" {
			c.t.Errorf("asked for %s", params)
		}
		browsing.Go(func() {
			if _, err := testkit.AnswerPage(c.t.Context(), p.URL, "", func(string) string { return c.value }); err != nil {
				c.t.Error(err)
			}
		})
	}
	params := `"name":"mcp_call","arguments":{"server":"x","tool":"echo","args":{"text":"` + text + `"}}`
	if !c.modern {
		m := c.exchange(id, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{`+params+`}}`, func(m testkit.Line) {
			if m.Method != "elicitation/create" {
				return
			}
			visit(m.Params)
			accept := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept"}}`
			if c.lines != nil {
				c.lines.Send([]byte(accept))
			} else {
				c.post(accept, func(testkit.Line) {})
			}
		})
		return string(m.Result) + string(m.Error)
	}
	meta := `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + urlCapability + `}`
	more := ""
	for {
		m := c.exchange(id, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{`+params+meta+more+`}}`, nil)
		var r struct {
			ResultType    string
			InputRequests map[string]testkit.Line
			RequestState  json.RawMessage
		}
		if err := json.Unmarshal(m.Result, &r); err != nil || r.ResultType != "input_required" {
			return string(m.Result) + string(m.Error)
		}
		answers := map[string]json.RawMessage{}
		for key, q := range r.InputRequests {
			visit(q.Params)
			answers[key] = json.RawMessage(`{"action":"accept"}`)
		}
		raw, err := json.Marshal(answers)
		if err != nil {
			c.t.Fatal(err)
		}
		more = `,"inputResponses":` + string(raw) + `,"requestState":` + string(r.RequestState)
	}
}

// A secret that is entered on a page is in the store, and nowhere else: not in what
// the client hears, nor in logs, traces or the audit log, although the server says it.
func TestSecretsEnteredOnAPageAreSeenNowhere(t *testing.T) {
	t.Parallel()
	const value = "sk_live_0123456789abcdefABCDEF"
	for _, way := range []string{"legacy", "modern", "legacy http", "modern http"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			demo := testkit.DemoServer(t)
			demo["env"] = map[string]string{"API_KEY": "${secret:ASKED_KEY}"}
			h := testkit.Host{
				Servers: map[string]map[string]any{"x": demo},
				Args:    []string{"--trace=stderr", "--trace-payloads", "--audit-plain-args", "--log-level", "debug"},
				Env:     []string{"DBUS_SESSION_BUS_ADDRESS=", "XDG_RUNTIME_DIR="},
			}
			era, http := strings.CutSuffix(way, " http")
			c := &urlClient{t: t, modern: era == "modern", value: value}
			var p *testkit.Process
			if http {
				c.url, p = testkit.StartHTTPHost(t, h)
			} else {
				p = testkit.StartHost(t, h)
				c.lines = p.Lines(t)
			}
			if !c.modern {
				c.exchange("1", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+urlCapability+`,"clientInfo":{"name":"c","version":"1"}}}`, nil)
			}
			if got := c.call("2", "hello"); !strings.Contains(got, "hello") {
				t.Errorf("it says %s", got)
			}
			if got := c.call("3", value); !strings.Contains(got, "[REDACTED") {
				t.Errorf("the server says %s", got)
			}
			if http {
				p.Signal(t, os.Interrupt)
			} else {
				p.CloseStdin()
			}
			p.Wait(t, patience)
			said := c.said.String() + p.Stderr.String()
			stored := false
			err := filepath.WalkDir(p.Dir, func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				text, err := os.ReadFile(path) //nolint:gosec // the test's own folder
				if filepath.Base(path) == "secrets.json" {
					stored = strings.Contains(string(text), value)
				} else {
					said += string(text)
				}
				return err
			})
			if err != nil || !stored {
				t.Errorf("it is not in the store: %v", err)
			}
			if i := strings.Index(said, value); i >= 0 {
				t.Errorf("it was seen: %s", said[max(0, i-300):min(len(said), i+100)])
			}
			if len(said) < 1000 {
				t.Errorf("there is no trace in %d bytes", len(said))
			}
		})
	}
}
