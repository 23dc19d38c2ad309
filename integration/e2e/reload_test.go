package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// rewrite replaces the configuration of a running host by renaming over it.
func (c *client) rewrite(entries servers, settings map[string]any) {
	c.t.Helper()
	testkit.WriteConfig(c.t, c.p.ConfigFile(), c.p.Mark, entries, settings)
}

// reaches waits until a server answers under this name of its own.
func (c *client) reaches(server, own string) {
	c.t.Helper()
	eventually(c.t, server+" is not "+own, func() bool {
		return strings.Contains(textOf(c.t, c.call(server, "whoami", `{}`)), `"name":`+quote(own))
	})
}

func named(t testing.TB, name string, flags ...string) map[string]any {
	return testkit.DemoServer(t, append([]string{"--name", name}, flags...)...)
}

func TestReload(t *testing.T) {
	t.Parallel()
	kept, stays := mark(t, named(t, "stays"))
	old, changes := mark(t, named(t, "before"))
	gone, removed := mark(t, named(t, "removed", "--ignore-term", "--ignore-eof"))
	c := host(t, servers{"stays": stays, "changes": changes, "removed": removed}, nil)
	for _, name := range []string{"stays", "changes", "removed"} {
		c.echo(name, "ready")
	}
	pid := alive(t, kept)[0].PID

	changed := named(t, "after")
	added := named(t, "added")
	c.rewrite(servers{"stays": with(stays, "timeoutMs", 12_345), "changes": changed, "added": added}, nil)
	c.reaches("added", "added")
	c.reaches("changes", "after")
	testkit.AwaitMarkedGone(t, patience, old)
	testkit.AwaitMarkedGone(t, patience, gone)
	c.refuse("removed", "echo", `{}`, "SERVER_NOT_FOUND")
	for _, s := range c.discover(`{}`).Servers {
		if s.Name == "removed" {
			t.Error("a removed server is still listed")
		}
	}
	for _, m := range c.discover(`{"query":"echo","limit":100}`).Matches {
		if m.Server == "removed" {
			t.Error("a tool of a removed server is still found")
		}
	}
	c.echo("stays", "still here")
	if now := alive(t, kept); len(now) != 1 || now[0].PID != pid {
		t.Errorf("a server whose command did not change was restarted: %v, was %d", now, pid)
	}
	noLines(t, c)
}

// A server that changes while a call is in flight is restarted afterwards.
func TestReloadLetsCallsFinish(t *testing.T) {
	t.Parallel()
	book := tempFile(t, "calls")
	old, entry := mark(t, named(t, "before", "--calls-file", book))
	c := host(t, servers{"x": entry}, nil)
	c.echo("x", "ready")
	id := c.start("x", "slow", `{"ms":3000}`)
	eventually(t, "the call does not reach the server", func() bool { return len(records(t, book)) == 2 })
	c.rewrite(servers{"x": named(t, "after"), "y": named(t, "y")}, nil)
	c.reaches("y", "y") // the new configuration is in force
	if result := c.resultOf(id); !bytes.Contains(result, []byte("took 3000 ms")) {
		t.Errorf("the call in flight is answered with %s", result)
	}
	c.reaches("x", "after")
	testkit.AwaitMarkedGone(t, patience, old)
}

// A removed server with a call in flight: the call is answered, one way or the
// other, and the process goes.
func TestReloadRemovesABusyServer(t *testing.T) {
	t.Parallel()
	book := tempFile(t, "calls")
	old, entry := mark(t, named(t, "x", "--calls-file", book))
	c := host(t, servers{"x": entry}, nil)
	id := c.start("x", "slow", `{"ms":2000}`)
	eventually(t, "the call does not reach the server", func() bool { return len(records(t, book)) == 1 })
	c.rewrite(servers{"y": named(t, "y")}, nil)
	c.reaches("y", "y")
	c.resultOf(id)
	c.refuse("x", "echo", `{}`, "SERVER_NOT_FOUND")
	testkit.AwaitMarkedGone(t, patience, old)
	noLines(t, c)
}

// However the file is broken, the last good configuration stays, and stderr
// says why; the next good one counts.
func TestReloadOfABrokenFile(t *testing.T) {
	t.Parallel()
	c := host(t, servers{"x": named(t, "x")}, nil)
	c.echo("x", "ready")
	pid := textOf(t, c.call("x", "whoami", `{}`))
	file := c.p.ConfigFile()
	steps := []struct {
		name  string
		spoil func() error
	}{
		{"half a file", func() error { return os.WriteFile(file, []byte(`{"mcpServers": {"x": {"command":`), 0o600) }},
		{"no object", func() error { return os.WriteFile(file, []byte(`"servers"`), 0o600) }},
		{"an empty file", func() error { return os.WriteFile(file, nil, 0o600) }},
		{"no file", func() error { return os.Remove(file) }},
		{"a bad tool rule", func() error {
			return os.WriteFile(file, []byte(`{"mcpServers": {}, "metamcp": {"toolRules": [{"pattern": ["/(/"]}]}}`), 0o600)
		}},
	}
	said := 0
	for i, step := range steps {
		if err := step.spoil(); err != nil {
			t.Fatal(err)
		}
		eventually(t, step.name+": stderr does not say why", func() bool { return len(c.p.Stderr.String()) > said })
		if got := textOf(t, c.call("x", "whoami", `{}`)); got != pid {
			t.Errorf("%s: the server is %s, was %s", step.name, got, pid)
		}
		name := fmt.Sprint("fixed", i)
		c.rewrite(servers{"x": named(t, "x"), name: named(t, name)}, nil)
		c.reaches(name, name)
		if got := textOf(t, c.call("x", "whoami", `{}`)); got != pid {
			t.Errorf("after %s: the server is %s, was %s", step.name, got, pid)
		}
		said = len(c.p.Stderr.String())
	}
	if !c.p.Stderr.Contains(".mcp.json") {
		t.Errorf("stderr does not name the file: %s", c.p.Stderr)
	}
	noLines(t, c)
}

// A host that starts without a file picks it up when it appears.
func TestConfigurationThatComesLater(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	m := testkit.NewMark()
	p := testkit.StartCommand(t, testkit.Command{Path: testkit.Binary(t), Env: []string{"HOME=" + home}, Dir: home, Mark: m})
	c := &client{Lines: p.Lines(t), p: p, t: t}
	c.Handshake()
	if d := c.discover(`{}`); len(d.Servers) != 0 || len(d.Notes) == 0 {
		t.Errorf("without a configuration: %+v", d)
	}
	c.refuse("x", "echo", `{}`, "SERVER_NOT_FOUND")
	testkit.WriteConfig(t, home+"/.mcp.json", m, servers{"x": named(t, "x")}, nil)
	eventually(t, "the file is not picked up", func() bool {
		return !bytes.Contains(c.call("x", "whoami", `{}`), []byte("SERVER_NOT_FOUND"))
	})
	c.echo("x", "there")
}

// The settings of a running host change too.
func TestReloadOfSettings(t *testing.T) {
	t.Parallel()
	entries := servers{"x": named(t, "x")}
	c := host(t, entries, nil)
	c.echo("x", "ready")
	c.rewrite(entries, map[string]any{"toolRules": []any{map[string]any{"pattern": []string{"echo"}, "enabled": false}}})
	eventually(t, "the rule does not count", func() bool {
		return bytes.Contains(c.call("x", "echo", `{"text":"x"}`), []byte("TOOL_DISABLED")) ||
			bytes.Contains(c.call("x", "echo", `{"text":"x"}`), []byte("TOOL_NOT_FOUND"))
	})
	if c.discover(`{"server":"x"}`).lists("echo") {
		t.Error("a disabled tool is listed")
	}
	c.rewrite(entries, nil)
	eventually(t, "the rule still counts", func() bool {
		return bytes.Contains(c.call("x", "echo", `{"text":"back"}`), []byte(`"back"`))
	})
}
