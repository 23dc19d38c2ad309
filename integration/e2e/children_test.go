package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// Servers of every age and habit are greeted in a way that they understand, the
// first time and when it is known what they speak.
func TestEveryKindOfServerIsReached(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flags string
		more  map[string]any
	}{
		{flags: "--era legacy"},
		{flags: "--era modern"},
		{flags: "--era both"},
		{flags: "--era legacy --strict"},
		{flags: "--era legacy --die-on-discover"},
		{flags: "--era legacy --silent-on-discover"},
		{flags: "--era both --silent-on-discover --strict"},
		{flags: "--era modern --garbage"},
		{flags: "--era legacy --start-delay 500ms --strict"},
		{flags: "--era modern --start-delay 500ms"},
	} {
		t.Run(tt.flags, func(t *testing.T) {
			t.Parallel()
			pids := tempFile(t, "pids")
			c := host(t, servers{"x": testkit.DemoServer(t, append(strings.Fields(tt.flags), "--pid-file", pids)...)}, nil)
			c.echo("x", "first")
			c.p.CloseStdin()
			c.p.Wait(t, patience)
			if n := strings.Count(readFile(t, pids), "\n"); n > 2 {
				t.Errorf("it took %d processes to learn how to greet it", n)
			}
			again := restart(t, c)
			before := strings.Count(readFile(t, pids), "\n")
			again.echo("x", "second")
			if n := strings.Count(readFile(t, pids), "\n") - before; n != 1 {
				t.Errorf("it took %d processes although it is known", n)
			}
		})
	}
}

// restart starts metamcp again in the home folder of one that has ended.
func restart(t testing.TB, c *client) *client {
	t.Helper()
	p := testkit.StartCommand(t, testkit.Command{
		Path: testkit.Binary(t), Args: []string{"--config", c.p.ConfigFile()},
		Env: []string{"HOME=" + c.p.Dir, "USERPROFILE=" + c.p.Dir}, Dir: c.p.Dir,
	})
	n := &client{Lines: p.Lines(t), p: p, t: t}
	n.Handshake()
	return n
}

// All pages are read, and a listing without an end is ended.
func TestPagesOfTools(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flags string
		want  []string
		lacks string
	}{
		{"--tools 100 --page-size 7", []string{"echo", "extra_0000_list_invoice", "extra_0099_delete_calendar"}, ""},
		{"--tools 100 --page-size 7 --era modern", []string{"echo", "extra_0000_list_invoice"}, ""},
		{"--tools 40 --page-size 9 --empty-cursor", []string{"echo", "extra_0000_list_invoice"}, ""},
		{"--tools 40 --page-size 9 --repeat-cursor", []string{"echo"}, "extra_0039"},
		{"--tools 3 --odd-tools", []string{"echo", "odd_keywords", "odd_bare"}, ""},
	} {
		t.Run(tt.flags, func(t *testing.T) {
			t.Parallel()
			c := host(t, servers{"x": testkit.DemoServer(t, strings.Fields(tt.flags)...)}, nil)
			c.echo("x", "ready")
			for _, name := range tt.want {
				if d := c.discover(`{"server":"x","tool":"` + name + `"}`); d.Tool == nil {
					t.Errorf("%s is not known", name)
				}
			}
			for _, m := range c.discover(`{"query":"extra","limit":100}`).Matches {
				if tt.lacks != "" && strings.HasPrefix(m.Tool, tt.lacks) {
					t.Errorf("%s is known", m.Tool)
				}
			}
		})
	}
}

// A tool that a server gets while it runs is found and can be called.
func TestListChanged(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			c := host(t, servers{"x": testkit.DemoServer(t, "--era", era)}, nil)
			c.refuse("x", "fresh", `{}`, "TOOL_NOT_FOUND")
			c.call("x", "add_tool", `{"name":"fresh"}`)
			eventually(t, "the new tool is not found", func() bool { return c.discover(`{"server":"x"}`).lists("fresh") })
			if got := textOf(t, c.call("x", "fresh", `{}`)); got != "called fresh" {
				t.Errorf("the new tool says %s", got)
			}
		})
	}
}

// A server that has announced a change and does not list it refuses no call by that, and is
// called as before. What its tools were decides, and a refusal says that they may be others.
func TestChangeIsNotListed(t *testing.T) {
	t.Parallel()
	c := host(t, servers{"x": testkit.DemoServer(t, "--lists", "1")}, nil)
	c.refuse("x", "fresh", `{}`, "TOOL_NOT_FOUND")
	c.call("x", "add_tool", `{"name":"fresh"}`)
	for range 3 {
		if r := c.refuse("x", "echo", `{"text":1}`, "VALIDATION_ERROR"); len(r.Details) == 0 || !strings.Contains(r.Details[0], "text") {
			t.Errorf("it does not say which argument is wrong: %s", r)
		}
		if r := c.refuse("x", "fresh", `{}`, "TOOL_NOT_FOUND"); !r.Retryable || !strings.Contains(r.Message, "the tools are listed no more") {
			t.Errorf("it does not say why it may be wrong: %s", r)
		}
	}
	c.echo("x", "still here")
}

// What a server asks its client is answered: a ping with a result, everything
// else with a refusal, and never with silence.
func TestRequestsOfAServer(t *testing.T) {
	t.Parallel()
	c := host(t, servers{"x": testkit.DemoServer(t, "--era", "legacy")}, nil)
	for _, method := range []string{"roots/list", "sampling/createMessage", "elicitation/create"} {
		var r struct {
			Error struct {
				Code    int
				Message string
			}
		}
		text := textOf(t, c.call("x", "ask", `{"method":"`+method+`","ms":60000}`))
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.Error.Code != -32601 || r.Error.Message == "" {
			t.Errorf("%s is answered with %s", method, text)
		}
	}
	if got := textOf(t, c.call("x", "ask", `{"method":"ping","ms":60000}`)); got != `{"method":"ping","result":{}}` {
		t.Errorf("ping is answered with %s", got)
	}
}

// A server sees a small environment of its own and the folder of its entry.
func TestEnvironmentOfAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	entry := testkit.DemoServer(t)
	entry["env"] = map[string]string{"GIVEN": "${E2E_OUTER:-fallback} ü"}
	entry["cwd"] = dir
	wide := testkit.DemoServer(t)
	wide["inheritEnv"] = []string{"E2E_SECRET*"}
	p := testkit.StartHost(t, testkit.Host{Servers: servers{"x": entry, "wide": wide}, Env: []string{"E2E_SECRET_TOKEN=hidden"}})
	c := &client{Lines: p.Lines(t), p: p, t: t}
	c.Handshake()
	for _, tt := range []struct{ server, name, want string }{
		{"x", "GIVEN", `"value":"fallback ü"`},
		{"x", "E2E_SECRET_TOKEN", `"set":false`},
		{"wide", "E2E_SECRET_TOKEN", `"value":"hidden"`},
		{"x", "HOME", `"value":` + quote(p.Dir)},
		{"x", "PATH", `"set":true`},
	} {
		if got := textOf(t, c.call(tt.server, "env", `{"name":"`+tt.name+`"}`)); !strings.Contains(got, tt.want) {
			t.Errorf("%s in %s: %s", tt.name, tt.server, got)
		}
	}
	if got := textOf(t, c.call("x", "whoami", `{}`)); !strings.Contains(got, quote(dir)) {
		t.Errorf("the folder of the server: %s", got)
	}
}

// A dead server, and one that never answers, neither delay nor fail a search.
func TestDiscoveryAmongDeadServers(t *testing.T) {
	t.Parallel()
	entries := servers{
		"dead":   map[string]any{"command": "metamcp-no-such-program"},
		"crash":  testkit.DemoServer(t, "--exit-at-start", "1"),
		"silent": testkit.DemoServer(t, "--silent"),
	}
	for i := range 3 {
		entries[fmt.Sprint("good", i)] = testkit.DemoServer(t)
	}
	c := host(t, entries, map[string]any{"discoverTimeoutMs": 3000})
	// On a busy machine the good ones may need longer than that, too.
	var d discovered
	eventually(t, "only the silent server is waited for", func() bool {
		d = c.discover(`{"query":"echo text","limit":50}`)
		return len(d.Pending) == 1
	})
	found := map[string]bool{}
	for _, m := range d.Matches {
		found[m.Server] = true
		if m.Score < 0 || m.Score > 1 {
			t.Errorf("score %v", m.Score)
		}
	}
	if len(found) != 3 {
		t.Errorf("found on %v, pending %v, failed %+v", found, d.Pending, d.Failed)
	}
	if len(d.Pending) != 1 || d.Pending[0] != "silent" {
		t.Errorf("pending %v", d.Pending)
	}
	failed := map[string]string{}
	for _, f := range d.Failed {
		failed[f.Server] = f.Class
	}
	if failed["dead"] != "offline" || failed["crash"] != "stdio-exit" {
		t.Errorf("failed %v", failed)
	}
	if len(d.Matches) > 0 && (d.Matches[0].Tool != "echo" || len(d.Matches[0].InputSchema) == 0) {
		t.Errorf("the best match is %+v", d.Matches[0])
	}
}
