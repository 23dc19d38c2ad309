package demoserver_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/demoserver"
	"github.com/metamcp/metamcp/integration/testkit"
)

func callEcho(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := c.ListTools(ctx, mcp.ListToolsRequest{}); err != nil {
		t.Fatal(err)
	}
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = "echo", map[string]any{"text": "hello"}
	result, err := c.CallTool(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := mcp.AsTextContent(result.Content[0]); !ok || text.Text != "hello" {
		t.Errorf("result %+v", result)
	}
}

func TestEnds(t *testing.T) {
	call := func(name, args string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + args + `}}`
	}
	tests := []struct {
		name   string
		flags  []string
		send   string
		code   int
		stderr string
	}{
		{"end of input", nil, "", 0, ""},
		{"at start", []string{"--exit-at-start", "9", "--exit-text", "API key missing"}, "", 9, "API key missing"},
		{"crash", nil, call("crash", `{"code":5}`), 5, "crashing with status 5"},
		{"discover", []string{"--die-on-discover"}, `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, 1, "expected initialize"},
		{"life is over", []string{"--ignore-eof", "--max-life", "50ms"}, "", 3, ""},
		{"life is over at start", []string{"--start-delay", "10m", "--max-life", "50ms"}, "", 3, ""},
		{"wrong flag", []string{"--era", "stone"}, "", 2, "--era is"},
		{"flood", []string{"--stderr-lines", "20000"}, "", 0, "line 20000 of 20000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := start(t, tt.flags...)
			if tt.send != "" {
				p.Lines(t).Send([]byte(tt.send))
			} else {
				p.CloseStdin()
			}
			if code := p.Wait(t, patience); code != tt.code {
				t.Errorf("exit status %d, want %d", code, tt.code)
			}
			if !p.Stderr.Contains(tt.stderr) {
				t.Errorf("stderr %q, want %q in it", p.Stderr, tt.stderr)
			}
		})
	}
}

// That a request gets no answer shows where one that was sent after it has one.
func TestSilence(t *testing.T) {
	l := start(t, "--silent-on-discover").Lines(t)
	l.Send([]byte(`{"jsonrpc":"2.0","id":"d","method":"server/discover"}`))
	l.Call("1", "ping", "{}")
	if rest := l.Unread(); len(rest) != 0 {
		t.Errorf("answered with %s", rest[0].Raw)
	}

	p := start(t, "--silent")
	l = p.Lines(t)
	l.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	p.CloseStdin()
	if code := p.Wait(t, patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if _, err := l.Match(patience, func(testkit.Line) bool { return true }); err == nil {
		t.Error("a silent server spoke")
	}
}

func TestStrict(t *testing.T) {
	l := start(t, "--strict").Lines(t)
	if _, failure := l.Call("1", "tools/list", "{}"); !strings.Contains(string(failure), "before initialization") {
		t.Errorf("before the handshake: %s", failure)
	}
	l.Handshake()
	if _, failure := l.Call("2", "tools/list", "{}"); failure != nil {
		t.Errorf("after the handshake: %s", failure)
	}
}

func TestGarbage(t *testing.T) {
	l := start(t, "--garbage").Lines(t)
	l.Handshake()
	if result, _ := tool(l, "1", "echo", `{"text":"x"}`); !strings.Contains(string(result), `"x"`) {
		t.Errorf("result %s", result)
	}
	noise := 0
	for _, line := range l.Unread() {
		if len(line.ID) == 0 && line.Method == "" {
			noise++
		}
	}
	if noise < 10 {
		t.Errorf("only %d lines of noise", noise)
	}
}

func TestStubborn(t *testing.T) {
	p := start(t, "--ignore-term", "--ignore-eof", "--strict")
	l := p.Lines(t)
	l.Handshake() // it is past its start, so it ignores signals by now
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGHUP} {
		p.Signal(t, s)
	}
	l.Call("1", "ping", "{}")
	p.CloseStdin()
	testkit.Eventually(t, patience, func() error {
		if !p.Stderr.Contains("input has ended; staying") {
			return errors.New("it has not noticed the end of its input")
		}
		return nil
	})
	if live, err := testkit.Marked(p.Mark); err != nil || len(live) != 1 {
		t.Errorf("alive after the end of input: %v, error %v", live, err)
	}
	p.Signal(t, os.Kill)
	if code := p.Wait(t, patience); code != -1 {
		t.Errorf("exit status %d", code)
	}
}

func TestFork(t *testing.T) {
	for _, tt := range []struct {
		flag     string
		ownGroup bool
	}{{"--fork", false}, {"--fork-setsid", true}} {
		t.Run(tt.flag, func(t *testing.T) {
			pids := filepath.Join(t.TempDir(), "pids")
			p := start(t, tt.flag, "--ignore-term", "--pid-file", pids)
			l := p.Lines(t)
			l.Handshake()
			testkit.Eventually(t, patience, func() error {
				data, err := os.ReadFile(pids)
				if err == nil && (!strings.Contains(string(data), fmt.Sprintf("%d server\n", p.PID)) || !strings.Contains(string(data), " helper\n")) {
					err = fmt.Errorf("PID file: %q", data)
				}
				return err
			})
			below, err := testkit.Descendants(p.PID)
			if err != nil || len(below) != 1 {
				t.Fatalf("descendants %v, error %v", below, err)
			}
			own := below[0].PGID == below[0].PID
			if own != tt.ownGroup {
				t.Errorf("helper %v in a group of its own: %t, want %t", below[0], own, tt.ownGroup)
			}
			p.CloseStdin()
			p.Wait(t, patience)
			left, err := testkit.Marked(p.Mark)
			if err != nil || len(left) != 1 || left[0].PID != below[0].PID {
				t.Errorf("left after the server: %v, error %v", left, err)
			}
			// The helper holds the server's output open: that ends with it.
			nothing := func(testkit.Line) bool { return false }
			if _, err := l.Match(100*time.Millisecond, nothing); errors.Is(err, io.EOF) {
				t.Error("the output has ended before the helper")
			}
			testkit.KillMarked(t, p.Mark)
			if _, err := l.Match(patience, nothing); !errors.Is(err, io.EOF) {
				t.Errorf("waiting for the end of the output: %v", err)
			}
		})
	}
}

func TestRecordsProveEachCall(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	p := start(t, "--calls-file", calls, "--name", "n")
	l := p.Lines(t)
	tool(l, "1", "add", `{"a":1,"b":2}`)
	l.Send([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"crash","arguments":{}}}`))
	p.Wait(t, patience)
	records, err := demoserver.ReadRecords(calls)
	if err != nil || len(records) != 2 {
		t.Fatalf("records %+v, error %v", records, err)
	}
	r := records[0]
	if r.PID != p.PID || r.Name != "n" || string(r.ID) != "1" || r.Tool != "add" || string(r.Args) != `{"a":1,"b":2}` {
		t.Errorf("record %+v", r)
	}
	if records[1].Tool != "crash" {
		t.Errorf("a call that ended the server: %+v", records[1])
	}
	if none, err := demoserver.ReadRecords(calls + ".none"); none != nil || err != nil {
		t.Errorf("a file that is not there: %v, %v", none, err)
	}
}

func TestHelpNamesTheTools(t *testing.T) {
	var help strings.Builder
	if _, err := demoserver.ParseArgs([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("help: %v", err)
	}
	for _, want := range []string{"  add          Adds two numbers.", "  crash ", "  ask ", "-ignore-term"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("%q is not in the help:\n%s", want, help.String())
		}
	}
}
