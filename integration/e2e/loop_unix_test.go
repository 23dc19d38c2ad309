//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/lineage"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// counted is a script that notes each start and becomes metamcp with these arguments, as
// npx does: nothing in the entry tells what it starts. starts counts them.
func counted(t testing.TB, dir, name string, args ...string) (entry map[string]any, starts func() int) {
	t.Helper()
	script, notes := filepath.Join(dir, name), filepath.Join(dir, name+".starts")
	text := fmt.Sprintf("#!/bin/sh\necho >> '%s'\nexec '%s' \"$@\"\n", notes, testkit.PlainBinary(t))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"command": script, "args": append([]string{}, args...)}, func() int {
		text, err := os.ReadFile(notes)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
}

// startsItself wants the error of an entry whose metamcp refused to start.
func (c *client) startsItself(server, entry, file string) {
	c.t.Helper()
	r := c.refuse(server, "mcp_discover", "{}", string(messages.CodeConnection))
	linkless, err := filepath.EvalSymlinks(file)
	if err != nil {
		c.t.Fatal(err)
	}
	if !strings.Contains(r.Message, fmt.Sprintf("the entry %q of ", entry)) || !strings.Contains(r.String(), "started this metamcp") ||
		!strings.Contains(strings.Join(r.Details, "\n"), fmt.Sprintf("Remove the entry %q from ", entry)) || !strings.Contains(r.String(), linkless) && !strings.Contains(r.String(), file) {
		c.t.Errorf("%s: %s", server, r)
	}
}

// fewStarts is how often an entry may be started that is called once: the host greets it
// in both eras, and what is exposed is listed too.
const fewStarts = 8

// An entry that starts metamcp with the file in which it stands, in whichever way, has an
// error that says so; nothing runs away, and other servers do not notice.
func TestEntryThatStartsItsOwnHost(t *testing.T) {
	for _, way := range []string{"alone", "shared"} {
		t.Run(way, func(t *testing.T) {
			p := newPlace(t, servers{}, nil)
			me, starts := counted(t, p.home, "me", "--config", p.config())
			me["env"], me["inheritEnv"] = map[string]string{lineage.Var: ""}, true // an entry does not get rid of it
			entries := servers{"me": me, "demo": testkit.DemoServer(t)}
			testkit.WriteConfig(t, p.config(), p.mark, entries, map[string]any{"expose": []string{"tools"}})
			attach := "--attach=never"
			if way == "shared" {
				p.host()
				attach = "--attach=require"
			}
			proc := p.run(attach)
			c := &client{Lines: proc.Lines(t), p: proc, t: t}
			c.Handshake()
			result, failure := c.ask("tools/list", "{}")
			if failure != nil || !strings.Contains(string(result), `"demo__echo"`) || strings.Contains(string(result), `"me__`) {
				t.Errorf("tools/list: %.2000s %s", result, failure)
			}
			c.startsItself("me", "me", p.config())
			c.echo("demo", "well")
			if n := starts(); n == 0 || n > fewStarts {
				t.Errorf("it was started %d times", n)
			}
		})
	}
}

// A gateway behind a gateway has a configuration of its own, and a way back from there
// ends, also where both are hosts that run already.
func TestGatewayOfGateways(t *testing.T) {
	for _, way := range []string{"alone", "shared"} {
		t.Run(way, func(t *testing.T) {
			p, q := newPlace(t, servers{}, nil), newPlace(t, servers{}, nil)
			at := func(p *place) []string {
				return []string{"--config", p.config(), "--state-dir", filepath.Join(p.home, ".metamcp")}
			}
			back, backs := counted(t, q.home, "back", at(p)...)
			testkit.WriteConfig(t, q.config(), q.mark, servers{"back": back, "demo": testkit.DemoServer(t)}, nil)
			there, theres := counted(t, p.home, "there", at(q)...)
			testkit.WriteConfig(t, p.config(), p.mark, servers{"there": there}, nil)
			attach := "--attach=never"
			if way == "shared" {
				p.host()
				q.host()
				attach = "--attach=require"
			}
			proc := p.run(attach)
			c := &client{Lines: proc.Lines(t), p: proc, t: t}
			c.Handshake()
			if text := textOf(t, c.call("there", "mcp_call", `{"server":"demo","tool":"echo","args":{"text":"deep"}}`)); text != "deep" {
				t.Errorf("the server behind the second gateway says %.500q", text)
			}
			text := textOf(t, c.call("there", "mcp_call", `{"server":"back","tool":"mcp_discover","args":{}}`))
			if !strings.Contains(text, `the entry \"there\" of `) || !strings.Contains(text, "started this metamcp") {
				t.Errorf("the way back: %s", text)
			}
			if n, m := theres(), backs(); n > 2 || m == 0 || m > fewStarts {
				t.Errorf("the second gateway was started %d times, the way back %d times", n, m)
			}
			if way == "shared" {
				c.p.CloseStdin()
				c.p.Wait(t, patience)
				q.client().echoes("demo", "to a client of its own")
			}
		})
	}
}

// A host that somebody starts in the shell of a server serves everybody, and has all
// entries; a command there starts the others.
func TestCommandsOfAServerThatIsAShell(t *testing.T) {
	p := newPlace(t, servers{"shell": testkit.DemoServer(t), "demo": testkit.DemoServer(t)}, nil)
	t.Setenv(lineage.Var, strings.TrimPrefix(lineage.Chain{}.Behind(p.config(), "shell").Into(nil)[0], lineage.Var+"="))
	if out, err := p.shell("call", "demo", "echo", `{"text":"from the shell"}`); err != nil || !strings.Contains(string(out), "from the shell") {
		t.Errorf("call: %s, %v", out, err)
	}
	if _, err := p.shell("call", "shell", "echo", `{"text":"again"}`); err == nil || !strings.Contains(err.Error(), "started this metamcp") {
		t.Errorf("the entry in itself: %v", err)
	}
	if _, err := p.shell("serve", "--attach=never"); err == nil || !strings.Contains(err.Error(), `the entry "shell" of `) || !strings.Contains(err.Error(), "hint: Remove") {
		t.Errorf("serve: %v", err)
	}
	if _, err := p.shell("host", "start"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.shell("host", "stop") })
	if err := os.Unsetenv(lineage.Var); err != nil {
		t.Fatal(err)
	}
	c := p.client()
	c.echoes("shell", "for everybody")
	c.echoes("demo", "too")
}
