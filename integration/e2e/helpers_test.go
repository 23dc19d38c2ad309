package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/demoserver"
	"github.com/metamcp/metamcp/integration/testkit"
)

const (
	// patience is for what happens at once on an idle machine.
	patience = 3 * time.Minute
	// modernMeta is what every request of revision 2026-07-28 carries.
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	// instantly is the bound for what must not wait for anything else: far
	// above what it takes, far below what it would take if it waited.
	instantly = 20 * time.Second
	// goneWithin is what the contract says: nothing of a host is alive three
	// seconds after its end was asked for.
	goneWithin = 3 * time.Second
)

type servers = map[string]map[string]any

// client is a raw line client of one process, of either era.
type client struct {
	*testkit.Lines
	p      *testkit.Process
	t      testing.TB
	modern bool
	ids    atomic.Int64
}

// host starts metamcp with these servers and shakes hands as a legacy client.
func host(t testing.TB, entries servers, settings map[string]any, args ...string) *client {
	t.Helper()
	c := rawHost(t, entries, settings, args...)
	c.Handshake()
	return c
}

// plainHost is host without the race detector, for what takes that minutes, such as to
// embed or to run scripts: the workers for that are the same program.
func plainHost(t testing.TB, entries servers, settings map[string]any, args ...string) *client {
	t.Helper()
	p := testkit.StartHost(t, testkit.Host{Path: testkit.PlainBinary(t), Servers: entries, Settings: settings, Args: args})
	c := &client{Lines: p.Lines(t), p: p, t: t}
	c.Handshake()
	return c
}

// Handshake is what a legacy client does first.
func (c *client) Handshake() {
	c.t.Helper()
	_, failure := c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}`)
	if failure != nil {
		c.t.Fatalf("initialize was refused: %s", failure)
	}
	c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
}

// modernHost is host for a client without a handshake.
func modernHost(t testing.TB, entries servers, settings map[string]any) *client {
	t.Helper()
	c := rawHost(t, entries, settings)
	c.modern = true
	return c
}

// rawHost starts metamcp and says nothing to it.
func rawHost(t testing.TB, entries servers, settings map[string]any, args ...string) *client {
	t.Helper()
	p := testkit.StartHost(t, testkit.Host{Servers: entries, Settings: settings, Args: args})
	return &client{Lines: p.Lines(t), p: p, t: t}
}

// direct starts a server without metamcp, as legacy or modern client.
func direct(t testing.TB, entry map[string]any, modern bool) *client {
	t.Helper()
	var env []string
	if vars, ok := entry["env"].(map[string]string); ok {
		for k, v := range vars {
			env = append(env, k+"="+v)
		}
	}
	args, _ := entry["args"].([]string)
	p := testkit.StartCommand(t, testkit.Command{Path: entry["command"].(string), Args: args, Env: env})
	c := &client{Lines: p.Lines(t), p: p, t: t, modern: modern}
	if !modern {
		c.Handshake()
	}
	return c
}

func (c *client) id() string { return strconv.FormatInt(c.ids.Add(1), 10) }

// params adds to an object what the era of the client asks for.
func (c *client) params(object string) string {
	if !c.modern {
		return object
	}
	if object == "{}" {
		return "{" + modernMeta + "}"
	}
	return strings.TrimSuffix(object, "}") + "," + modernMeta + "}"
}

// request sends a request and returns its id without waiting.
func (c *client) request(method, params string) string {
	c.t.Helper()
	id := c.id()
	c.Send([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + c.params(params) + `}`))
	return id
}

// ask sends a request and waits for its answer.
func (c *client) ask(method, params string) (result, failure json.RawMessage) {
	c.t.Helper()
	return c.answer(c.request(method, params))
}

func (c *client) answer(id string) (result, failure json.RawMessage) {
	c.t.Helper()
	var m testkit.Line
	raw, err := c.Match(patience, func(l testkit.Line) bool { return l.Method == "" && string(l.ID) == id })
	if err != nil {
		c.stacks()
		c.t.Fatalf("wait for the answer to request %s: %v", id, err)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		c.t.Fatalf("answer %.200s: %v", raw, err)
	}
	return m.Result, m.Error
}

// stacks makes a process that hangs say on stderr where.
func (c *client) stacks() {
	c.t.Helper()
	c.p.Signal(c.t, syscall.SIGQUIT)
	select {
	case <-c.p.Exited():
	case <-time.After(instantly):
	}
}

func callParams(server, tool, args string) string {
	return `{"name":"mcp_call","arguments":{"server":` + quote(server) + `,"tool":` + quote(tool) + `,"args":` + args + `}}`
}

func toolParams(tool, args string) string {
	return `{"name":` + quote(tool) + `,"arguments":` + args + `}`
}

// start begins a call of a tool behind metamcp and returns the request's id.
func (c *client) start(server, tool, args string) string {
	c.t.Helper()
	return c.request("tools/call", callParams(server, tool, args))
}

// call runs a tool behind metamcp and returns its whole result. A JSON-RPC
// error fails the test.
func (c *client) call(server, tool, args string) json.RawMessage {
	c.t.Helper()
	return c.resultOf(c.start(server, tool, args))
}

func (c *client) resultOf(id string) json.RawMessage {
	c.t.Helper()
	result, failure := c.answer(id)
	if failure != nil {
		c.t.Fatalf("request %s was refused: %s", id, failure)
	}
	return result
}

// echo calls echo and wants its text back.
func (c *client) echo(server, text string) {
	c.t.Helper()
	if got := textOf(c.t, c.call(server, "echo", `{"text":`+quote(text)+`}`)); got != text {
		c.t.Errorf("%s echoes %.300q, want %q", server, got, text)
	}
}

// prompt is echo within the bound for what must not wait for others.
func (c *client) prompt(server string) {
	c.t.Helper()
	id := c.start(server, "echo", `{"text":"well"}`)
	line, err := c.Match(instantly, func(l testkit.Line) bool { return string(l.ID) == id && l.Method == "" })
	if err != nil {
		c.t.Fatalf("the healthy server %s does not answer while another misbehaves: %v", server, err)
	}
	if !bytes.Contains(line, []byte(`"text":"well"`)) {
		c.t.Errorf("the healthy server %s answers %s", server, line)
	}
}

// refused is what metamcp says in a tool result of its own.
type refused struct {
	Code, Message, Server, Tool, Class, Hint string
	Retryable                                bool
	RetryAfterMs                             int64
	Details                                  []string
}

func (r refused) String() string {
	return fmt.Sprintf("%s: %s %q (%s)", r.Code, r.Message, r.Details, r.Hint)
}

// refusal reads a result that has to be an error of metamcp's own.
func refusal(t testing.TB, result json.RawMessage) refused {
	t.Helper()
	var whole struct {
		Error   *refused
		IsError bool
	}
	var outer struct{ IsError bool }
	text := textOf(t, result)
	if err := errors.Join(json.Unmarshal(result, &outer), json.Unmarshal([]byte(text), &whole)); err != nil || !outer.IsError || whole.Error == nil {
		t.Fatalf("want an error of metamcp's own, got %.500s", result)
	}
	return *whole.Error
}

// refuse calls a tool and wants this code.
func (c *client) refuse(server, tool, args, code string) refused {
	c.t.Helper()
	r := refusal(c.t, c.call(server, tool, args))
	if r.Code != code {
		c.t.Errorf("%s/%s: want %s, got %s", server, tool, code, r)
	}
	return r
}

// textOf returns the first text of a tool result.
func textOf(t testing.TB, result json.RawMessage) string {
	t.Helper()
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) == 0 {
		t.Fatalf("a result without text: %.500s", result)
	}
	return r.Content[0].Text
}

// discovered is what mcp_discover says.
type discovered struct {
	Servers []struct {
		Name, State, Class, Error, Description string
		Connected, Disabled                    bool
		Tools, Enabled                         *int
	}
	Tools []struct {
		Name        string
		InputSchema json.RawMessage
	}
	Tool    *struct{ Definition json.RawMessage }
	Matches []struct {
		Server, Tool string
		Score        float64
		Connected    bool
		InputSchema  json.RawMessage
	}
	Pending []string
	Failed  []struct{ Server, Class, Error string }
	Omitted int
	Notes   []string
}

func (c *client) discover(args string) discovered {
	c.t.Helper()
	return c.discoveredBy(c.request("tools/call", toolParams("mcp_discover", args)))
}

func (c *client) discoveredBy(id string) discovered {
	c.t.Helper()
	var d discovered
	text := textOf(c.t, c.resultOf(id))
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		c.t.Fatalf("mcp_discover says %.500s: %v", text, err)
	}
	return d
}

func (d discovered) lists(tool string) bool {
	for _, t := range d.Tools {
		if t.Name == tool {
			return true
		}
	}
	return false
}

// mark gives an entry a mark of its own, so that its processes can be counted
// apart from the host's, and cleans up after it.
func mark(t testing.TB, entry map[string]any) (string, map[string]any) {
	t.Helper()
	m := testkit.NewMark()
	env := map[string]string{testkit.MarkVariable: m}
	if old, ok := entry["env"].(map[string]string); ok {
		for k, v := range old {
			env[k] = v
		}
	}
	entry["env"] = env
	t.Cleanup(func() { testkit.KillMarked(t, m) })
	return m, entry
}

// alive returns the live processes with a mark.
func alive(t testing.TB, m string) []testkit.Proc {
	t.Helper()
	procs, err := testkit.Marked(m)
	if err != nil {
		t.Fatal(err)
	}
	return procs
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if cond() {
			return nil
		}
		return errors.New(what)
	})
}

func records(t testing.TB, path string) []demoserver.Record {
	t.Helper()
	r, err := demoserver.ReadRecords(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tempFile(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(t.TempDir(), name)
}

func quote(s string) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always can be encoded
	return strings.TrimSuffix(buf.String(), "\n")
}

// with returns a copy of an entry with one more member.
func with(entry map[string]any, key string, value any) map[string]any {
	out := map[string]any{key: value}
	for k, v := range entry {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// noLines fails the test where lines have come that nobody took.
func noLines(t testing.TB, c *client) {
	t.Helper()
	for _, l := range c.Unread() {
		t.Errorf("nobody asked for the line %.300s", l.Raw)
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
