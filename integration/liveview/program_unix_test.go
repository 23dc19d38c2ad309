//go:build unix

package liveview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// startHost starts a host with a demo server that takes its time to start.
func startHost(t *testing.T) (p *testkit.Process, client *testkit.Lines) {
	t.Helper()
	p = testkit.StartHost(t, testkit.Host{
		Servers: map[string]map[string]any{"demo": testkit.DemoServer(t, "--start-delay", "1s"), "quick": testkit.DemoServer(t)},
		Args:    []string{"--name", "work"},
	})
	client = p.Lines(t)
	client.Handshake()
	p.AwaitControl(t)
	return p, client
}

// call begins a call and does not wait for its answer.
func call(client *testkit.Lines, id int, server, tool, args string) {
	client.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":%q,"tool":%q,"args":%s}}}`, id, server, tool, args))
}

// The real program in a real terminal, attached to a real host with real
// children.
func TestFollowInATerminal(t *testing.T) {
	t.Parallel()
	p, client := startHost(t)
	x := newTerminal(t, 120, 30)
	cmd := x.start(p.Dir, nil, "trace", "--follow", "--state-dir", p.StateDir())
	x.await("work", "live", fmt.Sprintf("pid %d", p.PID))
	x.await("demo~", "closed")
	if !x.altScreen() || !x.colored() {
		t.Error("neither a screen of its own nor colours")
	}

	// A connection's states, as they change.
	call(client, 1, "demo", "slow", `{"ms":5000}`)
	x.await("conn#1", "CONNECTING")
	x.await("conn#1", "ACTIVE")
	client.Response("1")
	x.await("conn#1", "IDLE")
	x.await("calls", "1 total")
	x.await("demo/slow", "ok", "after")

	// Only what fits the filter.
	call(client, 2, "quick", "echo", `{"text":"hello"}`)
	client.Response("2")
	x.await("quick/echo", "ok")
	x.keys("/server=quick echo\r")
	x.await("messages · server=quick echo", "2 kept")
	if line := x.line("demo/slow"); line != "" {
		t.Errorf("it does not fit the filter: %s", line)
	}

	// A request as a diagram, and back.
	x.keys("\r")
	x.await("request", "quick/echo")
	x.await("edge", "session/1", "conn#1")
	x.keys("\x1b")
	x.await("q quit", "esc all")

	x.resized(cmd, 60, 16)
	x.await("work", "live")
	x.await("q quit", "tab pane")
	if line := x.line("↑↓ scroll"); line != "" {
		t.Errorf("60 columns have no room for %q", line)
	}
	x.resized(cmd, 200, 50)
	x.await("↑↓ scroll")

	x.keys("q")
	x.ended(cmd, 0)
}

// A host that ends is said to have ended, and its successor is shown.
func TestFollowAHostThatEndsAndComesBack(t *testing.T) {
	t.Parallel()
	p, _ := startHost(t)
	x := newTerminal(t, 100, 24)
	cmd := x.start(p.Dir, []string{"NO_COLOR=1"}, "trace", "--follow", "work", "--ascii", "--state-dir", p.StateDir())
	x.await("work", "live")
	p.CloseStdin()
	p.Wait(t, patience)
	x.await("work", "ended", "ago", "waiting")
	next := testkit.StartCommand(t, testkit.Command{
		Path: testkit.Binary(t), Args: []string{"--config", p.ConfigFile(), "--name", "work", "--state-dir", p.StateDir()},
		Env: []string{"HOME=" + p.Dir}, Dir: p.Dir,
	})
	x.await("work", "live", fmt.Sprintf("pid %d", next.PID))
	if x.colored() {
		t.Error("colours in spite of NO_COLOR")
	}
	if text := x.String(); strings.ContainsFunc(text, func(r rune) bool { return r > 126 }) {
		t.Errorf("not ASCII:\n%s", text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	x.ended(cmd, 0)
}

// Where a terminal cannot move its cursor, and where there is none, the lines
// are written one after the other.
func TestFollowWithoutAScreen(t *testing.T) {
	t.Parallel()
	p, client := startHost(t)
	args := []string{"trace", "--follow", "work", "--state-dir", p.StateDir()}
	x := newTerminal(t, 200, 50)
	dumb := x.start(p.Dir, []string{"TERM=dumb"}, args...)
	x.await("start", "metamcp")

	var out testkit.Tail
	piped := exec.CommandContext(t.Context(), testkit.Binary(t), append(args, "--json", "--server", "quick")...)
	piped.Dir, piped.Stdout, piped.Stderr = p.Dir, &out, &out
	if err := piped.Start(); err != nil {
		t.Fatal(err)
	}
	seen := func(text string) {
		t.Helper()
		testkit.Eventually(t, patience, func() error {
			if !out.Contains(text) {
				return fmt.Errorf("no %q in %s", text, out.String())
			}
			return nil
		})
	}
	seen(`"kind":"start"`)
	call(client, 1, "demo", "echo", `{"text":"one"}`)
	client.Response("1")
	call(client, 2, "quick", "echo", `{"text":"two"}`)
	client.Response("2")
	x.await("demo/echo", "ok")
	x.await("quick/echo", "ok")
	if x.altScreen() || x.colored() {
		t.Error("a dumb terminal got what it does not understand")
	}
	seen(`"outcome":"ok","server":"quick"`)
	if out.Contains(`"server":"demo"`) {
		t.Errorf("the filter lets through\n%s", out.String())
	}
	if err := piped.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := piped.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
	p.CloseStdin()
	x.ended(dumb, 0)
	x.await("the host work ended")
}

// A flood neither fills the memory nor the terminal, and keys still work.
func TestRunInAFlood(t *testing.T) {
	t.Parallel()
	h := &host{records: make(chan messages.TraceRecord)}
	x := newTerminal(t, 100, 30)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Name: "flood", Source: h, Input: x.pts, Output: x.pts, Environ: []string{"TERM=xterm-256color"}, Filter: "type=Rare"})
	}()
	var sent uint64
	send := func(kind string) bool {
		r := message(1, "a", "b", kind)
		r.Time = time.Now()
		select {
		case h.records <- r:
			sent++
			return true
		case err := <-done:
			t.Errorf("it ended: %v", err)
			return false
		}
	}
	for i := range 5 * Kept {
		if !send("Common") || i%Kept == 0 && !send("Rare") {
			return
		}
	}
	x.await("messages · type=Rare")
	x.await("records", fmt.Sprint(sent))
	x.keys("q")
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("q does not end it")
	}
	if h.closed.Load() != 1 {
		t.Errorf("the host was closed %d times", h.closed.Load())
	}
}

// A filter that is wrong is told before anything is drawn, and a context that
// ends is the end.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	h := newHost(nil)
	var out bytes.Buffer
	if err := Run(t.Context(), Options{Source: h, Filter: "server=[", Output: &out}); err == nil || h.closed.Load() != 1 || out.Len() > 0 {
		t.Errorf("a wrong filter: %v, closed %d times, %q", err, h.closed.Load(), out.String())
	}
	if _, err := parseQuery("request=x"); err == nil {
		t.Error("no number is no error")
	}
	x := newTerminal(t, 80, 24)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	h = newHost(errors.New("lost"), message(1, "a", "b", "One"))
	go func() {
		done <- Run(ctx, Options{Name: "work", Source: h, Input: x.pts, Output: x.pts, Environ: []string{"TERM=xterm"}})
	}()
	x.await("One")
	close(h.records)
	x.await("lost", "ago")
	stop()
	if err := <-done; err != nil {
		t.Errorf("ended from outside: %v", err)
	}
}

// The table of servers in a real terminal, sorted by keys.
func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	p, client := startHost(t)
	x := newTerminal(t, 140, 20)
	cmd := x.start(p.Dir, nil, "top", "--state-dir", p.StateDir())
	x.await("work", "live", fmt.Sprintf("pid %d", p.PID))
	x.await("none of 2 servers runs")
	call(client, 1, "quick", "echo", `{"text":"hello"}`)
	client.Response("1")
	x.await("quick", "idle", "1", "ms", "M", "%")
	x.keys("a")
	x.await("demo", "-")
	x.keys("m")
	x.await("by memory")
	x.keys("q")
	x.ended(cmd, 0)
}
