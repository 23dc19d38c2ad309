package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// httpHost starts metamcp over HTTP, with the demo server behind it, and
// returns its URL. It has no race detector: the front's own tests have that.
func httpHost(t testing.TB, settings map[string]any, args ...string) (url string, p *testkit.Process) {
	t.Helper()
	return testkit.StartHTTPHost(t, testkit.Host{
		Path: testkit.PlainBinary(t), Servers: servers{"demo": testkit.DemoServer(t)}, Settings: settings, Args: args,
	})
}

// ofClient is what testdata/clients/call.mjs prints.
type ofClient struct {
	Tools    []string
	Progress []int
	Slow     string
	Echoes   []string
	Abort    string
}

// The official TypeScript SDK, in both of its generations, talks to metamcp over
// HTTP and stdio, as a client of either era where it can.
func TestOfficialClients(t *testing.T) {
	t.Parallel()
	node, dir := npmservers.Clients(t)
	script, err := filepath.Abs("testdata/clients/call.mjs")
	if err != nil {
		t.Fatal(err)
	}
	url, p := httpHost(t, nil)
	stdio := []string{testkit.PlainBinary(t), "--config", p.ConfigFile(), "--state-dir", t.TempDir()}
	for _, c := range []struct {
		name, generation, era string
		target                []string
	}{
		{"v1 http", "v1", "legacy", []string{url}},
		{"v1 stdio", "v1", "legacy", stdio},
		{"v2 http legacy", "v2", "legacy", []string{url}},
		{"v2 http modern", "v2", "modern", []string{url}},
		{"v2 stdio legacy", "v2", "legacy", stdio},
		{"v2 stdio modern", "v2", "modern", stdio},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, append([]string{script, dir, c.generation, c.era}, c.target...)...)
			cmd.WaitDelay = time.Second
			var complaints bytes.Buffer
			cmd.Stderr = &complaints
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, out, complaints.Bytes())
			}
			var got ofClient
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var echoes []string
			for i := range 20 {
				echoes = append(echoes, fmt.Sprint("t", i))
			}
			slices.Sort(got.Tools)
			least := 5
			if len(c.target) > 1 {
				least = 4 // the script says why
			}
			if !slices.Equal(got.Tools, []string{"mcp_call", "mcp_discover", "mcp_execute", "mcp_provision"}) ||
				!slices.Equal(got.Progress, []int{1, 2, 3, 4, 5}[:min(max(len(got.Progress), least), 5)]) || !strings.Contains(got.Slow, "5 steps") ||
				!slices.Equal(got.Echoes, echoes) || got.Abort != "given up" {
				t.Errorf("the client saw %s\n%s", out, complaints.Bytes())
			}
		})
	}
}

// So does the command line of the MCP Inspector.
func TestInspector(t *testing.T) {
	t.Parallel()
	node, dir := npmservers.Clients(t)
	url, p := httpHost(t, nil)
	home := t.TempDir()
	entries := map[string]any{}
	for _, era := range []string{"legacy", "auto", "modern"} {
		entries["http-"+era] = map[string]any{"type": "streamable-http", "url": url, "protocolEra": era}
		entries["stdio-"+era] = map[string]any{
			"type": "stdio", "command": testkit.PlainBinary(t), "args": []string{"--config", p.ConfigFile(), "--state-dir", t.TempDir()}, "protocolEra": era,
		}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "clients.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name := range entries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, filepath.Join(dir, npmservers.Inspector), "--cli", "--config", file, "--server", name,
				"--method", "tools/call", "--tool-name", "mcp_call", "--tool-args-json", `{"server":"demo","tool":"echo","args":{"text":"hello"}}`, "--format", "json")
			cmd.WaitDelay = time.Second
			cmd.Env = append(os.Environ(), "HOME="+home, "MCP_INSPECTOR_SECRET_STORE=memory")
			var complaints bytes.Buffer
			cmd.Stderr = &complaints
			out, err := cmd.Output()
			if err != nil || !strings.Contains(string(out), `{"type":"text","text":"hello"}`) {
				t.Errorf("%v: %s\n%s", err, out, complaints.Bytes())
			}
		})
	}
}

// mcp-go's client over HTTP, in every revision.
func TestClientOfMCPGoOverHTTP(t *testing.T) {
	t.Parallel()
	url, _ := httpHost(t, nil)
	for _, version := range mcp.ValidProtocolVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			over, err := transport.NewStreamableHTTP(url)
			if err != nil {
				t.Fatal(err)
			}
			c := mcpclient.NewClient(over, mcpclient.WithProtocolVersion(version))
			if err := c.Start(ctx); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}()
			var steps atomic.Int64
			c.OnNotification(func(n mcp.JSONRPCNotification) {
				if n.Method == "notifications/progress" {
					steps.Add(1)
				}
			})
			var hello mcp.InitializeRequest
			hello.Params.ProtocolVersion = version
			hello.Params.ClientInfo = mcp.Implementation{Name: "mcp-go", Version: "1"}
			if got, err := c.Initialize(ctx, hello); err != nil || got.ProtocolVersion != version {
				t.Fatalf("%+v, %v", got, err)
			}
			var call mcp.CallToolRequest
			call.Params.Name = "mcp_call"
			call.Params.Arguments = map[string]any{"server": "demo", "tool": "slow", "args": map[string]any{"ms": 20, "steps": 5}}
			call.Params.Meta = &mcp.Meta{ProgressToken: "p"}
			if got, err := c.CallTool(ctx, call); err != nil || got.IsError {
				t.Fatalf("%+v, %v", got, err)
			}
			if n := steps.Load(); n != 5 {
				t.Errorf("%d notifications of progress came before the answer, want 5", n)
			}
		})
	}
}

// post sends one message and returns the status and the body.
func post(t testing.TB, url, body string, headers map[string]string) (*http.Response, string) {
	t.Helper()
	return postOver(t, http.DefaultClient, url, body, headers)
}

func postOver(t testing.TB, over *http.Client, url, body string, headers map[string]string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range headers {
		r.Header.Set(k, v)
	}
	res, err := over.Do(r)
	if err != nil {
		t.Error(err)
		return &http.Response{}, ""
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Error(err)
	}
	return res, string(text)
}

const helloHTTP = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}`

// clientsVariable makes the test with many clients one with 500.
const clientsVariable = "METAMCP_TEST_HTTP_CLIENTS"

// Many clients of both eras at once: every answer comes, and to the one who asked.
func TestManyClientsOverHTTP(t *testing.T) {
	t.Parallel()
	clients := 50
	if n, err := strconv.Atoi(os.Getenv(clientsVariable)); err == nil {
		clients = n
	}
	const each = 20
	url, p := httpHost(t, map[string]any{"http": map[string]any{"maxRequestsPerSecond": 100_000, "maxConcurrent": 10_000}})
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.MaxIdleConnsPerHost = clients
	defer own.CloseIdleConnections()
	over := &http.Client{Transport: own, Timeout: patience}
	began := time.Now()
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			modern, session := c%2 == 1, ""
			if !modern {
				res, body := postOver(t, over, url, helloHTTP, nil)
				if session = res.Header.Get("Mcp-Session-Id"); session == "" {
					t.Errorf("client %d: %d, %s", c, res.StatusCode, body)
					return
				}
			}
			for i := range each {
				headers := map[string]string{"Mcp-Session-Id": session}
				meta := ""
				if modern {
					headers = map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "mcp_call"}
					meta = "," + modernMeta
				}
				nonce := fmt.Sprintf("client %d call %d.", c, i)
				res, body := postOver(t, over, url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"demo","tool":"echo","args":{"text":%q}}%s}}`, i, nonce, meta), headers)
				if res.StatusCode != http.StatusOK || strings.Count(body, nonce) != 1 || !strings.HasPrefix(body, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":`, i)) {
					t.Errorf("client %d, call %d: %d, %s", c, i, res.StatusCode, body)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d clients with %d calls each: %v, %s", clients, each, time.Since(began), memoryOf(p.PID))
}

// memoryOf is the resident memory of a process, where the system tells it.
func memoryOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // only Linux has it
	return strings.Join(regexp.MustCompile(`VmRSS:\s*\d+ kB`).FindAllString(string(text), 1), "")
}

// Tokens: made by a command, known to a running host at once, shown once; what a
// script kept for one client is nothing to another.
func TestTokensOverHTTP(t *testing.T) {
	t.Parallel()
	url, p := httpHost(t, nil)
	if res, body := post(t, url, helloHTTP, nil); res.StatusCode != http.StatusOK {
		t.Fatalf("without tokens: %d, %s", res.StatusCode, body)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), testkit.PlainBinary(t), append([]string{"token", "--config", p.ConfigFile(), "--state-dir", p.StateDir()}, args...)...)
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("token %q: %v, %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	a, b := run("add", "a"), run("add", "b", "--expires", "1h", "--no-provision")
	if list := run("list"); strings.Contains(list, a) || !strings.Contains(list, "MAY PROVISION") {
		t.Errorf("token list: %s", list)
	}
	res, body := post(t, url, helloHTTP, nil)
	if res.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(res.Header.Get("Www-Authenticate"), "Bearer ") {
		t.Errorf("without a token: %d, %v, %s", res.StatusCode, res.Header, body)
	}
	execute := func(token, code string) string {
		t.Helper()
		request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
			"name": "mcp_execute", "arguments": map[string]any{"code": code},
			"_meta": map[string]any{
				"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
				"io.modelcontextprotocol/clientInfo": map[string]any{"name": "e2e", "version": "1"},
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		res, body := post(t, url, string(request), map[string]string{
			"Authorization": "Bearer " + token, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "mcp_execute",
		})
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%d, %s", res.StatusCode, body)
		}
		return body
	}
	big := execute(a, `return "mine".repeat(100000)`)
	kept := regexp.MustCompile(`results\.(\w+)`).FindString(big)
	if kept == "" {
		t.Fatalf("nothing was kept: %s", big)
	}
	if got := execute(a, "return (await "+kept+").length"); !strings.Contains(got, "400000") {
		t.Errorf("the owner does not find %s: %s", kept, got)
	}
	if got := execute(b, "return (await "+kept+").length"); !strings.Contains(got, "there is no kept result") {
		t.Errorf("another client finds %s: %s", kept, got)
	}
	run("remove", "a", "b")
	// The last token is gone; who knows none does not get in for that.
	for _, headers := range []map[string]string{nil, {"Authorization": "Bearer " + a}} {
		if res, body := post(t, url, helloHTTP, headers); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("after all tokens were removed: %d, %s", res.StatusCode, body)
		}
	}
}

// A signal lets what is in flight be answered, and nothing of the host is left.
func TestHTTPHostEnds(t *testing.T) {
	t.Parallel()
	url, p := httpHost(t, map[string]any{"drainTimeoutMs": 60_000})
	res, body := post(t, url, helloHTTP, nil)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%d, %s", res.StatusCode, body)
	}
	headers := map[string]string{"Mcp-Session-Id": res.Header.Get("Mcp-Session-Id")}
	call := func(tool, args string) string {
		_, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"demo","tool":"`+tool+`","args":`+args+`}}}`, headers)
		return body
	}
	call("echo", `{"text":"warm"}`)
	var wg sync.WaitGroup
	wg.Go(func() {
		if got := call("slow", `{"ms":5000}`); !strings.Contains(got, "took 5000 ms") {
			t.Errorf("the call in flight: %s", got)
		}
	})
	testkit.Eventually(t, patience, func() error {
		out, err := exec.CommandContext(t.Context(), testkit.PlainBinary(t), "ps", "--config", p.ConfigFile(), "--state-dir", p.StateDir()).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(" active ")) {
			return fmt.Errorf("the call is not seen: %w, %s", err, out)
		}
		return nil
	})
	p.Signal(t, syscall.SIGTERM)
	wg.Wait()
	if code := p.Wait(t, patience); code != 0 {
		t.Errorf("exit %d: %s", code, p.Stderr.String())
	}
	testkit.AwaitMarkedGone(t, patience, p.Mark)
}

// What must not be is refused before anything starts.
func TestHTTPHostRefusesToBeOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--http", "0.0.0.0:0"}, "metamcp token add"},
		{[]string{"--http", "example.com:80"}, "no address of this machine"},
		{[]string{"--http", ":0", "--http-tls-cert", "/nowhere/c.pem"}, "http.tlsKey"},
	} {
		p := testkit.StartHost(t, testkit.Host{Path: testkit.PlainBinary(t), Args: append([]string{"serve"}, c.args...)})
		if code := p.Wait(t, patience); code == 0 || !p.Stderr.Contains(c.says) {
			t.Errorf("%q: exit %d, %s", c.args, code, p.Stderr.String())
		}
	}
}
