package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// TestBadServers sets one misbehaving server beside a healthy one: a call to the
// bad one gets a clear error or its result, and the healthy one answers before,
// during and after.
func TestBadServers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// bad makes the entry; a nil one is one demo server with these flags.
		bad   func(t *testing.T) map[string]any
		flags []string
		tool  string
		args  string
		// code is the expected error of metamcp's own; "" expects the result
		// to contain what says.
		code, class string
		says        []string
	}{
		{
			name: "missing command",
			bad:  func(*testing.T) map[string]any { return map[string]any{"command": "metamcp-no-such-program"} },
			code: "SERVER_CONNECTION_ERROR", class: "offline", says: []string{"metamcp-no-such-program", "not found"},
		},
		{
			name: "missing folder",
			bad: func(t *testing.T) map[string]any {
				return with(testkit.DemoServer(t), "cwd", filepath.Join(t.TempDir(), "none"))
			},
			code: "SERVER_CONNECTION_ERROR", says: []string{"none", "cwd"},
		},
		{
			name: "not executable",
			bad: func(t *testing.T) map[string]any {
				path := tempFile(t, "script")
				if err := os.WriteFile(path, []byte("no program"), 0o600); err != nil {
					t.Fatal(err)
				}
				return map[string]any{"command": path}
			},
			code: "SERVER_CONNECTION_ERROR", says: []string{"script"},
		},
		{
			name: "crash at start", flags: []string{"--exit-at-start", "7", "--exit-text", "boom: the database is missing"},
			code: "SERVER_CONNECTION_ERROR", class: "stdio-exit", says: []string{"code 7", "the database is missing"},
		},
		{
			name: "clean exit at start", flags: []string{"--exit-at-start", "0", "--exit-text", "usage: server FOLDER"},
			code: "SERVER_CONNECTION_ERROR", class: "stdio-exit", says: []string{"usage: server FOLDER"},
		},
		{
			name: "never answers",
			bad: func(t *testing.T) map[string]any {
				return with(testkit.DemoServer(t, "--silent"), "startupTimeoutMs", 1500)
			},
			code: "SERVER_CONNECTION_ERROR", class: "offline", says: []string{"startupTimeoutMs"},
		},
		{
			name: "ends its output and stays",
			bad: func(*testing.T) map[string]any {
				return map[string]any{"command": "/bin/sh", "args": []string{"-c", "exec >&-; cat >/dev/null"}}
			},
			code: "SERVER_CONNECTION_ERROR", says: nil,
		},
		{
			name: "answers nothing but nonsense",
			bad: func(*testing.T) map[string]any {
				return map[string]any{"command": "/bin/sh", "startupTimeoutMs": 1500, "args": []string{"-c",
					`while read -r line; do echo "hello"; echo '{"jsonrpc":"2.0"}'; echo '[1,2'; echo 'null'; echo '{"jsonrpc":"2.0","id":99999,"result":{}}'; echo '{"id":{},"result":7}'; done`}}
			},
			code: "SERVER_CONNECTION_ERROR", says: nil,
		},
		{
			name: "answers initialize with the wrong shape",
			bad: func(*testing.T) map[string]any {
				return map[string]any{"command": "/bin/sh", "startupTimeoutMs": 3000, "args": []string{"-c",
					`while read -r line; do id=$(printf %s "$line" | sed -n 's/.*"id": *\([0-9"a-z-]*\).*/\1/p'); echo '{"jsonrpc":"2.0","id":'"$id"',"result":[]}'; done`}}
			},
			code: "SERVER_CONNECTION_ERROR", says: nil,
		},
		{name: "nonsense between its answers", flags: []string{"--garbage"}, tool: "echo", args: `{"text":"clear"}`, says: []string{`"clear"`}},
		{name: "floods stderr at start", flags: []string{"--stderr-lines", "200000"}, tool: "echo", args: `{"text":"still here"}`, says: []string{`"still here"`}},
		{name: "floods stderr in a call", tool: "stderr", args: `{"lines":200000}`, says: []string{"wrote 200000 lines"}},
		{name: "forks a grandchild that holds its pipes", flags: []string{"--fork", "--ignore-term", "--ignore-eof"}, tool: "echo", args: `{"text":"yes"}`, says: []string{`"yes"`}},
		{
			name: "dies mid-call with a grandchild on its pipes", flags: []string{"--fork-setsid", "--ignore-term"}, tool: "crash", args: `{"code":9}`,
			code: "TOOL_EXECUTION_ERROR", class: "stdio-exit", says: []string{"code 9", "unknown"},
		},
		{name: "wrong arguments", tool: "add", args: `{"a":"one","c":3}`, code: "VALIDATION_ERROR", says: []string{"a: expected number", "b", "c"}},
		{name: "no such tool", tool: "notes_lst", args: `{}`, code: "TOOL_NOT_FOUND", says: []string{"notes_list"}},
		{name: "an answer above 64 MiB", tool: "big", args: `{"bytes":70000000}`, code: "TOOL_EXECUTION_ERROR", says: []string{"MiB"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			entry := testkit.DemoServer(t, tt.flags...)
			if tt.bad != nil {
				entry = tt.bad(t)
			}
			tool, args := tt.tool, tt.args
			if tool == "" {
				tool, args = "echo", `{"text":"x"}`
			}
			c := host(t, servers{"bad": entry, "good": testkit.DemoServer(t)}, nil)
			c.prompt("good")
			id := c.start("bad", tool, args)
			c.prompt("good")
			result := c.resultOf(id)
			text := string(result)
			if tt.code != "" {
				r := refusal(t, result)
				text = r.String()
				if r.Code != tt.code || r.Class != tt.class && tt.class != "" || r.Hint == "" || r.Server != "bad" {
					t.Errorf("want %s (%s) with server and hint, got %+v", tt.code, tt.class, r)
				}
			}
			for _, want := range tt.says {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in %.1000s", want, text)
				}
			}
			c.prompt("good")
			c.p.CloseStdin()
			if code := c.p.Wait(t, patience); code != 0 {
				t.Errorf("exit status %d", code)
			}
			testkit.AwaitMarkedGone(t, goneWithin, c.p.Mark)
			noLines(t, c)
		})
	}
}

func TestUnknownServerGetsTheNearestNames(t *testing.T) {
	t.Parallel()
	c := host(t, servers{"github": testkit.DemoServer(t), "gitlab": testkit.DemoServer(t), "weather": testkit.DemoServer(t)}, nil)
	r := c.refuse("githup", "echo", `{}`, "SERVER_NOT_FOUND")
	if !strings.Contains(r.String(), `"github"`) || strings.Contains(r.String(), "weather") {
		t.Errorf("the nearest name is not in %s, or a far one is", r)
	}
	c.refuse("", "echo", `{}`, "VALIDATION_ERROR")
	for _, params := range []string{
		`{"name":"mcp_call","arguments":{}}`,
		`{"name":"mcp_call","arguments":{"server":"github"}}`,
		`{"name":"mcp_call","arguments":{"server":"github","tool":"echo","args":"{}"}}`,
		`{"name":"mcp_call","arguments":{"server":"github","tool":"echo","args":{},"timeoutMs":-1}}`,
		`{"name":"mcp_call","arguments":[]}`,
		`{"name":"mcp_call"}`,
		`{"name":"mcp_discover","arguments":{"limit":"many"}}`,
		`{"name":"mcp_discover","arguments":{"limit":0.5}}`,
		`{"name":"mcp_discover","arguments":{"limit":-1}}`,
		`{"name":"mcp_discover","arguments":{"tool":"echo"}}`,
		`{"name":"mcp_discover","arguments":{"detail":"all"}}`,
	} {
		result, failure := c.ask("tools/call", params)
		if failure != nil {
			t.Errorf("%s: a model does not see the error %s", params, failure)
			continue
		}
		if r := refusal(t, result); r.Code != "VALIDATION_ERROR" || r.Hint == "" {
			t.Errorf("%s: %s", params, r)
		}
	}
	if _, failure := c.ask("tools/call", toolParams("echo", `{}`)); failure == nil {
		t.Error("a tool that metamcp does not have was called")
	}
	r = refusal(t, func() json.RawMessage {
		result, _ := c.ask("tools/call", toolParams("mcp_discover", `{"server":"githup"}`))
		return result
	}())
	if r.Code != "SERVER_NOT_FOUND" || !strings.Contains(r.String(), "github") {
		t.Errorf("mcp_discover of an unknown server: %s", r)
	}
}

// A call that was lost with its server is repeated only where that is safe, and
// never more than once; the server's own book says how often it ran.
func TestCrashInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, retry, tool, args string
		runs                    int
		flags                   []string
	}{
		{"destructive tools run once", "safe", "crash", `{"code":4}`, 1, nil},
		{"always repeats once", "always", "crash", `{"code":4}`, 2, nil},
		{"never", "never", "slow", `{"ms":600000}`, 1, nil},
		{"read-only tools are repeated", "safe", "slow", `{"ms":600000}`, 2, nil},
		{"half an answer is none", "safe", "crash", `{"code":4}`, 1, []string{"--half-answer"}},
		{"half an answer is none, and the call is repeated", "always", "crash", `{"code":0}`, 2, []string{"--half-answer"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			book := tempFile(t, "calls")
			m, entry := mark(t, testkit.DemoServer(t, append(tt.flags, "--calls-file", book)...))
			c := host(t, servers{"x": with(entry, "retry", tt.retry), "good": testkit.DemoServer(t)}, nil)
			c.echo("x", "ready")
			id := c.start("x", tt.tool, tt.args)
			if tt.tool == "slow" {
				for run := 1; run <= tt.runs; run++ {
					eventually(t, fmt.Sprintf("run %d has not started", run), func() bool { return len(records(t, book)) == 1+run })
					r := records(t, book)
					killPID(t, r[len(r)-1].PID, m)
				}
			}
			r := refusal(t, c.resultOf(id))
			if r.Code != "TOOL_EXECUTION_ERROR" || r.Class != "stdio-exit" {
				t.Errorf("got %s", r)
			}
			if !strings.Contains(r.String(), "unknown") {
				t.Errorf("that the outcome is unknown should be said: %s", r)
			}
			if tt.runs > 1 == strings.Contains(r.String(), "Nothing was repeated") {
				t.Errorf("the tool ran %d times, and the error says %s", tt.runs, r)
			}
			c.prompt("good")
			c.echo("x", "again")
			runs := 0
			for _, rec := range records(t, book) {
				if rec.Tool == tt.tool {
					runs++
				}
			}
			if runs != tt.runs {
				t.Errorf("the tool ran %d times, want %d", runs, tt.runs)
			}
			noLines(t, c)
		})
	}
}

// killPID ends a process of ours from outside.
func killPID(t testing.TB, pid int, mark string) {
	t.Helper()
	for _, p := range alive(t, mark) {
		if p.PID == pid {
			proc, err := os.FindProcess(pid)
			if err == nil {
				err = proc.Kill()
			}
			if err != nil {
				t.Fatalf("kill %d: %v", pid, err)
			}
			return
		}
	}
	t.Fatalf("process %d is not alive", pid)
}

// Calls that were in flight together when their server died each get one answer.
func TestCrashWithManyCallsInFlight(t *testing.T) {
	t.Parallel()
	const n = 200
	book := tempFile(t, "calls")
	c := host(t, servers{"x": with(testkit.DemoServer(t, "--calls-file", book), "retry", "never")}, nil)
	c.echo("x", "ready")
	var ids []string
	for range n {
		ids = append(ids, c.start("x", "slow", `{"ms":600000}`))
	}
	eventually(t, "not all calls have reached the server", func() bool { return len(records(t, book)) == n+1 })
	ids = append(ids, c.start("x", "crash", `{}`))
	for _, id := range ids {
		if r := refusal(t, c.resultOf(id)); r.Code != "TOOL_EXECUTION_ERROR" || r.Class != "stdio-exit" {
			t.Fatalf("request %s: %s", id, r)
		}
	}
	c.echo("x", "again")
	noLines(t, c)
}

// A server that keeps crashing is left alone for a while, and the refusal says
// for how long. A tool's own failures never lead there.
func TestBreakerOpensAndCloses(t *testing.T) {
	t.Parallel()
	flag := tempFile(t, "well")
	script := `if [ -e "$0" ]; then exec "$1" demo-server; fi; echo "no flag" >&2; exit 1`
	entry := map[string]any{"command": "/bin/sh", "args": []string{"-c", script, flag, testkit.PlainBinary(t)}}
	c := host(t, servers{"x": entry, "good": testkit.DemoServer(t)}, map[string]any{"pool": map[string]any{"failureThreshold": 2, "cooldownMs": 3000}})
	deadline := time.Now().Add(patience)
	var open refused
	for open.Code != "CIRCUIT_OPEN" {
		if time.Now().After(deadline) {
			t.Fatal("the circuit never opens")
		}
		open = refusal(t, c.call("x", "echo", `{"text":"x"}`))
	}
	if open.RetryAfterMs <= 0 || open.Class != "stdio-exit" || open.Hint == "" || !strings.Contains(open.String(), "no flag") {
		t.Errorf("the refusal lacks time, class or cause: %+v", open)
	}
	c.prompt("good")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the circuit does not close again", func() bool {
		return !bytes.Contains(c.call("x", "echo", `{"text":"back"}`), []byte(`"isError":true`))
	})
	for range 10 {
		c.call("good", "fail", `{}`)
		c.ask("tools/call", callParams("good", "refuse", `{}`))
	}
	c.prompt("good")
}

// The configuration's bad entries are reported with their lines and refuse
// calls; the others work.
func TestBrokenConfiguration(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file := filepath.Join(home, "servers.json")
	demo := quote(testkit.PlainBinary(t))
	text := `{
  // comments and trailing commas are allowed
  "mcpServers": {
    "good": {"command": ` + demo + `, "args": ["demo-server", "--name", "good"],},
    "number": {"command": 7},
    "unset": {"command": ` + demo + `, "args": ["demo-server", "${METAMCP_E2E_UNSET}"]},
    "neither": {},
    "twice": {"command": "first"},
    "twice": {"command": ` + demo + `, "args": ["demo-server", "--name", "second"]},
    "typo": {"command": ` + demo + `, "args": ["demo-server"], "timeoutMS": 5},
    "text": "npx server",
  },
  "metamcp": {"pool": {"poolSize": "many"}, "drainTimeout": 1}
}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := testkit.StartCommand(t, testkit.Command{Path: testkit.Binary(t), Args: []string{"--config", file}, Env: []string{"HOME=" + home}, Dir: home})
	c := &client{Lines: p.Lines(t), p: p, t: t}
	c.Handshake()
	c.echo("good", "works")
	c.echo("typo", "works")
	if got := textOf(t, c.call("twice", "whoami", `{}`)); !strings.Contains(got, `"second"`) {
		t.Errorf("of a name that stands there twice, the last counts: %s", got)
	}
	for name, want := range map[string][]string{
		"number":  {"servers.json:5", "command"},
		"unset":   {"servers.json:6", "METAMCP_E2E_UNSET"},
		"neither": {"servers.json:7", "command", "url"},
		"text":    {"servers.json:11"},
	} {
		r := c.refuse(name, "echo", `{}`, "CONFIGURATION_ERROR")
		for _, w := range want {
			if !strings.Contains(r.String(), w) {
				t.Errorf("%s: %q is not in %s", name, w, r)
			}
		}
	}
	for _, want := range []string{"line 8", "timeoutMs", "poolSize", "drainTimeoutMs", "METAMCP_E2E_UNSET"} {
		eventually(t, "stderr says "+want, func() bool { return p.Stderr.Contains(want) })
	}
	c.prompt("good")
}

// A server that does not end by itself is ended, with its grandchildren, and the
// host's end does not wait for more than the ladder.
func TestStubbornServersEndWithTheHost(t *testing.T) {
	t.Parallel()
	m, entry := mark(t, testkit.DemoServer(t, "--ignore-term", "--ignore-eof", "--fork-setsid"))
	c := host(t, servers{"x": entry}, nil)
	c.echo("x", "ready")
	if n := len(alive(t, m)); n != 2 {
		t.Errorf("%d processes, want the server and its grandchild", n)
	}
	c.p.CloseStdin()
	if code := c.p.Wait(t, patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
	testkit.AwaitMarkedGone(t, goneWithin, m)
}
