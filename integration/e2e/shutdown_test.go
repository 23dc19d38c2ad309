//go:build unix

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

const children = 50

// crowd is fifty servers of all tempers, whose processes have one mark.
func crowd(t testing.TB) (servers, string) {
	t.Helper()
	m := testkit.NewMark()
	t.Cleanup(func() { testkit.KillMarked(t, m) })
	tempers := [][]string{
		{}, // polite
		{"--ignore-term", "--ignore-eof"},
		{"--fork", "--ignore-term"},
		{"--fork-setsid", "--ignore-term", "--ignore-eof"},
		{},
	}
	all := servers{}
	for i := range children {
		entry := testkit.DemoServer(t, tempers[i%len(tempers)]...)
		entry["env"] = map[string]string{testkit.MarkVariable: m}
		all[fmt.Sprintf("s%02d", i)] = entry
	}
	return all, m
}

var crowdSettings = map[string]any{"pool": map[string]any{"poolSize": children}}

// startAll calls every server of the crowd and returns when all have answered.
func startAll(t testing.TB, c *client, m string) {
	t.Helper()
	var ids []string
	for i := range children {
		ids = append(ids, c.start(fmt.Sprintf("s%02d", i), "whoami", `{}`))
	}
	for _, id := range ids {
		if result := c.resultOf(id); bytes.Contains(result, []byte(`"isError":true`)) {
			t.Fatalf("a server did not start: %s", result)
		}
	}
	// Two of five have a grandchild.
	if n := len(alive(t, m)); n != children+children*2/5 {
		t.Fatalf("%d processes are alive", n)
	}
}

// These tests are not parallel: they are about three seconds, and fifty
// processes take what there is of a small machine.

func TestHostEndsWithFiftyChildren(t *testing.T) {
	tests := []struct {
		name string
		end  func(c *client)
		code int // -1: killed
	}{
		{"SIGTERM", func(c *client) { c.p.Signal(c.t, syscall.SIGTERM) }, 0},
		{"SIGINT", func(c *client) { c.p.Signal(c.t, os.Interrupt) }, 0},
		{"end of stdin", func(c *client) { c.p.CloseStdin() }, 0},
		{"SIGKILL", func(c *client) { c.p.Signal(c.t, os.Kill) }, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			entries, m := crowd(t)
			c := host(t, entries, crowdSettings)
			startAll(t, c, m)
			tt.end(c)
			testkit.AwaitMarkedGone(t, goneWithin, m)
			if code := c.p.Wait(t, patience); code != tt.code {
				t.Errorf("exit status %d, want %d", code, tt.code)
			}
			noLines(t, c)
		})
	}
}

func TestHostIsKilledWhileItStartsChildren(t *testing.T) {
	for _, started := range []int{1, 4, 12, 30} {
		t.Run(fmt.Sprint(started), func(t *testing.T) {
			entries, m := crowd(t)
			c := host(t, entries, crowdSettings)
			for i := range children {
				c.start(fmt.Sprintf("s%02d", i), "whoami", `{}`)
			}
			eventually(t, "too few children have started", func() bool { return len(alive(t, m)) >= started })
			c.p.Signal(t, os.Kill)
			testkit.AwaitMarkedGone(t, goneWithin, m)
		})
	}
}

// The host and its watchdog are killed together; the next host ends what they
// have left, and nothing else.
func TestNextStartEndsWhatWasLeft(t *testing.T) {
	bystander, entry := mark(t, testkit.DemoServer(t, "--ignore-term"))
	other := direct(t, map[string]any{"command": entry["command"], "args": entry["args"], "env": map[string]string{testkit.MarkVariable: bystander}}, false)

	m := testkit.NewMark()
	entries := servers{}
	for i, flags := range [][]string{{"--ignore-eof"}, {"--ignore-eof", "--ignore-term"}, {"--ignore-eof", "--fork"}, {"--ignore-eof", "--ignore-term", "--fork-setsid"}} {
		entries[fmt.Sprint("s", i)] = with(testkit.DemoServer(t, flags...), "env", map[string]string{testkit.MarkVariable: m})
	}
	t.Cleanup(func() { testkit.KillMarked(t, m) })
	c := host(t, entries, nil)
	for name := range entries {
		c.echo(name, "ready")
	}
	// Stopped, the host cannot start another watchdog.
	c.p.Signal(t, syscall.SIGSTOP)
	eventually(t, "the host does not stop", func() bool {
		return slices.ContainsFunc(alive(t, c.p.Mark), func(p testkit.Proc) bool { return p.PID == c.p.PID && p.State == 'T' })
	})
	dog := c.watchdog(m)
	if dog == 0 {
		t.Fatal("there is no watchdog")
	}
	if err := syscall.Kill(dog, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.p.Signal(t, os.Kill)
	c.p.Wait(t, patience)
	if n := len(alive(t, m)); n != 6 {
		t.Fatalf("%d processes are left, want four servers and two grandchildren", n)
	}
	next := testkit.StartCommand(t, testkit.Command{
		Path: testkit.Binary(t), Args: []string{"--config", c.p.ConfigFile()},
		Env: []string{"HOME=" + c.p.Dir, "USERPROFILE=" + c.p.Dir}, Dir: c.p.Dir,
	})
	n := &client{Lines: next.Lines(t), p: next, t: t}
	n.Handshake()
	testkit.AwaitMarkedGone(t, patience, m)
	if result, failure := other.ask("tools/call", toolParams("echo", `{"text":"alive"}`)); failure != nil || textOf(t, result) != "alive" {
		t.Errorf("a server that nobody has left was ended")
	}
	n.echo("s0", "anew")
}

// draining returns a client with one endless call in flight, known to run at
// the server, that a host with this configuration would wait ten minutes for.
func draining(t *testing.T) (c *client, slow string) {
	t.Helper()
	book := tempFile(t, "calls")
	c = host(t, servers{"x": testkit.DemoServer(t, "--calls-file", book)}, map[string]any{"drainTimeoutMs": 600_000})
	slow = c.start("x", "slow", `{"ms":600000}`)
	eventually(t, "the call does not reach the server", func() bool { return len(records(t, book)) == 1 })
	return c, slow
}

// A watchdog that was killed is replaced, and the next one knows the children.
func TestWatchdogIsReplaced(t *testing.T) {
	t.Parallel()
	m, entry := mark(t, testkit.DemoServer(t, "--ignore-term", "--ignore-eof", "--fork-setsid"))
	c := host(t, servers{"x": entry}, nil)
	c.echo("x", "ready")
	dog := c.watchdog(m)
	if dog == 0 {
		t.Fatal("there is no watchdog")
	}
	if err := syscall.Kill(dog, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is no other watchdog", func() bool { next := c.watchdog(m); return next != 0 && next != dog })
	c.prompt("x")
	next := c.watchdog(m)
	c.p.Signal(t, os.Kill)
	testkit.AwaitMarkedGone(t, goneWithin, m)
	eventually(t, "the watchdog stays without a host", func() bool {
		procs, err := testkit.Processes()
		return err == nil && !slices.ContainsFunc(testkit.Live(procs), func(p testkit.Proc) bool { return p.PID == next })
	})
}

// watchdog returns the process id of the host's watchdog, 0 where there is none:
// the one live child of the host that is no server, whose mark is m.
func (c *client) watchdog(m string) int {
	c.t.Helper()
	procs, err := testkit.Descendants(c.p.PID)
	if err != nil {
		c.t.Fatal(err)
	}
	servers := alive(c.t, m)
	for _, p := range testkit.Live(procs) {
		isServer := slices.ContainsFunc(servers, func(s testkit.Proc) bool { return s.PID == p.PID })
		if p.PPID == c.p.PID && !isServer {
			return p.PID
		}
	}
	return 0
}

// Two hosts of one home do not touch each other's servers, however one ends.
func TestTwoHostsShareAHome(t *testing.T) {
	t.Parallel()
	m, entry := mark(t, testkit.DemoServer(t, "--ignore-eof"))
	a := host(t, servers{"x": entry}, nil)
	a.echo("x", "ready")
	first := alive(t, m)
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		b := restart(t, a)
		b.echo("x", "too")
		if n := len(alive(t, m)); n != 2 {
			t.Errorf("%d servers of two hosts", n)
		}
		b.p.Signal(t, end)
		b.p.Wait(t, patience)
		eventually(t, "the other host's server stays", func() bool { return len(alive(t, m)) == 1 })
		if now := alive(t, m); now[0].PID != first[0].PID {
			t.Errorf("the server is %v, was %v", now, first)
		}
		a.prompt("x")
	}
}

func TestSecondSignalSkipsTheDrain(t *testing.T) {
	t.Parallel()
	c, slow := draining(t)
	// Two of one kind could become one before they are seen.
	c.p.Signal(t, syscall.SIGTERM)
	c.p.Signal(t, os.Interrupt)
	if r := refusal(t, c.resultOf(slow)); r.Code != "SHUTTING_DOWN" && r.Code != "CANCELLED" {
		t.Errorf("the call in flight is told %s", r)
	}
	c.p.Wait(t, patience)
	testkit.AwaitMarkedGone(t, goneWithin, c.p.Mark)
}

// What is in flight and no call is not waited for either: a script goes on for as long
// as its own time lasts.
func TestSecondSignalEndsScripts(t *testing.T) {
	t.Parallel()
	settings := map[string]any{"drainTimeoutMs": 600_000, "execute": map[string]any{"timeoutMs": 600_000}}
	for name, begin := range map[string]func(entries servers) (c *client, h *testkit.Process){
		"of its own": func(entries servers) (*client, *testkit.Process) {
			c := host(t, entries, settings)
			return c, c.p
		},
		"attached": func(entries servers) (*client, *testkit.Process) {
			p := newPlace(t, entries, settings)
			h := p.host()
			return p.client(), h
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := tempFile(t, "calls")
			c, h := begin(servers{"x": testkit.DemoServer(t, "--calls-file", book)})
			script := c.script(`await servers.x.echo({text: "begun"}); for (;;) await sleep(30000)`)
			eventually(t, "the script does not begin", func() bool { return len(records(t, book)) == 1 })
			h.Signal(t, syscall.SIGTERM)
			h.Signal(t, os.Interrupt)
			if r := refusal(t, c.resultOf(script)); r.Code != "SHUTTING_DOWN" {
				t.Errorf("the script in flight is told %s", r)
			}
			h.Wait(t, patience)
		})
	}
}

// How long a session drains is what the configuration says when it ends.
func TestDrainTimeoutIsReloaded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *client){
		"end of stdin": func(c *client) { c.p.CloseStdin() },
		"SIGTERM":      func(c *client) { c.p.Signal(c.t, syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := tempFile(t, "calls")
			x := testkit.DemoServer(t, "--calls-file", book)
			c := host(t, servers{"x": x}, map[string]any{"drainTimeoutMs": 600_000})
			slow := c.start("x", "slow", `{"ms":600000}`)
			eventually(t, "the call does not reach the server", func() bool { return len(records(t, book)) == 1 })
			c.rewrite(servers{"x": x, "y": named(t, "y")}, map[string]any{"drainTimeoutMs": 50})
			c.reaches("y", "y") // the new configuration is in force
			end(c)
			if r := refusal(t, c.resultOf(slow)); r.Code != "SHUTTING_DOWN" {
				t.Errorf("the call in flight is told %s", r)
			}
			c.p.Wait(t, patience)
			testkit.AwaitMarkedGone(t, goneWithin, c.p.Mark)
		})
	}
}

// While the host drains, new requests are refused in words, and what is drained
// can still be cancelled.
func TestRequestsDuringTheDrain(t *testing.T) {
	t.Parallel()
	c, slow := draining(t)
	c.p.Signal(t, syscall.SIGTERM)
	eventually(t, "calls are still taken after SIGTERM", func() bool {
		result, failure := c.ask("tools/call", callParams("x", "echo", `{"text":"late"}`))
		return strings.Contains(string(result)+string(failure), "SHUTTING_DOWN")
	})
	c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + slow + `}}`))
	if code := c.p.Wait(t, patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
	testkit.AwaitMarkedGone(t, goneWithin, c.p.Mark)
}

// A script that pipes its requests in and closes the pipe gets all its answers.
func TestCallsInFlightAreDrained(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(c *client)
	}{
		{"end of stdin", func(c *client) { c.p.CloseStdin() }},
		{"SIGTERM", func(c *client) { c.p.Signal(c.t, syscall.SIGTERM) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, entry := mark(t, testkit.DemoServer(t, "--start-delay", "300ms"))
			c := host(t, servers{"x": entry, "y": testkit.DemoServer(t)}, map[string]any{"drainTimeoutMs": 60_000})
			ids := []string{
				c.start("x", "slow", `{"ms":700}`),
				c.start("y", "slow", `{"ms":1000,"steps":3}`),
				c.start("y", "echo", `{"text":"quick"}`),
				c.start("y", "no such tool", `{}`),
				c.request("tools/list", `{}`),
				c.request("tools/call", toolParams("mcp_discover", `{"query":"echo"}`)),
			}
			if tt.name == "SIGTERM" { // which overtakes what is in the pipe
				eventually(t, "the server has not started", func() bool { return len(alive(t, m)) > 0 })
				c.resultOf(ids[len(ids)-1])
				ids = ids[:len(ids)-1]
			}
			tt.end(c)
			for i, id := range ids {
				result := c.resultOf(id)
				if i < 3 && bytes.Contains(result, []byte(`"isError":true`)) {
					t.Errorf("request %s was not drained: %s", id, result)
				}
			}
			if code := c.p.Wait(t, patience); code != 0 {
				t.Errorf("exit status %d", code)
			}
			noLines(t, c)
		})
	}
}

// The whole conversation is in the pipe, and its end too, before the host has
// read the first line.
func TestPipedScript(t *testing.T) {
	t.Parallel()
	p := testkit.StartHost(t, testkit.Host{Servers: servers{"x": testkit.DemoServer(t)}})
	script := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + callParams("x", "add", `{"a":1,"b":2}`) + `}
{"jsonrpc":"2.0","id":3,"method":"ping"}` // the last line has no line feed
	if _, err := p.Stdin().Write([]byte(script)); err != nil {
		t.Fatal(err)
	}
	p.CloseStdin()
	c := &client{Lines: p.Lines(t), p: p, t: t}
	c.resultOf("1")
	if got := textOf(t, c.resultOf("2")); got != `{"sum":3}` {
		t.Errorf("the sum is %s", got)
	}
	c.resultOf("3")
	if code := p.Wait(t, patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
	noLines(t, c)
}

// A call that outlasts the drain is told so, and the host ends.
func TestDrainHasAnEnd(t *testing.T) {
	t.Parallel()
	cancels := tempFile(t, "cancels")
	c := host(t, servers{"x": testkit.DemoServer(t, "--cancels-file", cancels)}, map[string]any{"drainTimeoutMs": 200})
	c.echo("x", "ready")
	id := c.start("x", "slow", `{"ms":600000}`)
	c.p.CloseStdin()
	if r := refusal(t, c.resultOf(id)); r.Code != "SHUTTING_DOWN" && r.Code != "CANCELLED" {
		t.Errorf("the call in flight is told %s", r)
	}
	if code := c.p.Wait(t, patience); code != 0 && code != 1 { // 2 is for wrong usage
		t.Errorf("exit status %d", code)
	}
	testkit.AwaitMarkedGone(t, goneWithin, c.p.Mark)
}

// A client that has stopped reading cannot keep the host, or its servers, alive.
func TestClientThatDoesNotReadCannotHoldTheHost(t *testing.T) {
	t.Parallel()
	p := testkit.StartHost(t, testkit.Host{Servers: servers{"x": testkit.DemoServer(t, "--ignore-eof", "--ignore-term")}, Settings: map[string]any{"drainTimeoutMs": 500}})
	c := &client{t: t, p: p}
	send := func(id, params string) {
		if _, err := fmt.Fprintf(p.Stdin(), `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":%s}`+"\n", id, params); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fmt.Fprintln(p.Stdin(), `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		send(c.id(), callParams("x", "big", `{"bytes":1000000}`))
	}
	send(c.id(), callParams("x", "slow", `{"ms":600000}`))
	eventually(t, "the server does not start", func() bool { return len(alive(t, p.Mark)) >= 2 })
	p.Signal(t, syscall.SIGTERM)
	p.Wait(t, patience)
	testkit.AwaitMarkedGone(t, goneWithin, p.Mark)
}

// Nothing was asked, nothing is started, and the end is clean.
func TestHostWithoutWork(t *testing.T) {
	t.Parallel()
	c := host(t, servers{"x": testkit.DemoServer(t)}, nil)
	c.p.CloseStdin()
	if code := c.p.Wait(t, patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if entries, err := os.ReadDir(c.p.StateDir() + "/run"); err == nil && len(entries) > 0 {
		names := make([]string, len(entries))
		for i, e := range entries {
			names[i] = e.Name()
		}
		text, _ := json.Marshal(names)
		t.Errorf("a clean end leaves %s behind", text)
	}
}
