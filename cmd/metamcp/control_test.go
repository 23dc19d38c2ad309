package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// fakeHost is a fake: it says what a test put into it.
type fakeHost struct {
	status messages.HostStatus
	logs   string
}

func (h *fakeHost) Status(context.Context, bool) (*messages.HostStatus, error) { return &h.status, nil }

func (h *fakeHost) Draining(context.Context) (bool, error) { return h.status.Draining, nil }

func (h *fakeHost) Trace(context.Context) (<-chan messages.TraceRecord, error) {
	return nil, errors.New("no trace here")
}

func (h *fakeHost) LogFiles(server string) ([]string, error) {
	if server != "files" {
		return nil, &messages.Error{Code: messages.CodeServerNotFound, Message: "there is no server " + server}
	}
	return control.LogFiles(h.logs, server)
}

func newFakeHost(stateDir string) *fakeHost {
	now := time.Now()
	return &fakeHost{logs: filepath.Join(stateDir, "logs"), status: messages.HostStatus{
		Pool:     messages.PoolStatus{Size: 20, Used: 2, Idle: 1, MaxWaiters: 1024},
		Calls:    messages.CallCounts{InFlight: 1, Total: 42, Failed: 2, ToolErrors: 1},
		Sessions: 1,
		Servers: []messages.HostServer{
			{Name: "broken", State: "FAILED", Breaker: "open", Failures: 5, RetryAt: now.Add(time.Hour),
				Error: &messages.Error{Class: messages.ClassStdioExit, Message: "exit status 1\nsecond\x1b[2Jline"}},
			{Name: "files", State: "ACTIVE", Breaker: "closed", Known: true, Tools: 9, Enabled: 7, Instances: []messages.Instance{
				{Actor: "metamcp/pool/breaker/files~1/conn#1", PID: os.Getpid(), State: "ACTIVE", InFlight: 1, Since: now.Add(-2 * time.Minute)},
				{Actor: "metamcp/pool/breaker/files~1/conn#2", State: "CONNECTING", Since: now},
			}},
			{Name: "off", State: "IDLE", Breaker: "closed", Disabled: true},
		},
	}}
}

func serveFake(t *testing.T, dir, name string) *control.Server {
	t.Helper()
	s, err := control.Serve(control.Options{StateDir: dir, Name: name, Version: "1.2.3", Configs: []string{"/the/config.json"}, Host: newFakeHost(dir)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endFake(t, s) })
	return s
}

func endFake(t *testing.T, s *control.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// controlCommand runs one of the commands that look at running hosts.
func controlCommand(ctx context.Context, out io.Writer, words ...string) (notes string, err error) {
	var stderr bytes.Buffer
	c := &common{logLevel: "warn", stderr: &stderr}
	root := &cobra.Command{Use: "metamcp", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringArrayVarP(&c.files, "config", "c", nil, "")
	c.overlay = config.RegisterFlags(root.PersistentFlags())
	root.AddCommand(newStatus(c), newPs(c), newLogs(c))
	root.SetOut(out)
	root.SetErr(&stderr)
	root.SetArgs(words)
	err = root.ExecuteContext(ctx)
	return stderr.String(), err
}

// A configuration that cannot be read hides no host, and what mends it is said.
func TestStatusWithABrokenConfiguration(t *testing.T) {
	dir := t.TempDir()
	serveFake(t, dir, "one")
	broken := textFile(t, dir, "mcp.json", `{"mcpServers": {"a": {"command": "x" "args": []}}}`)
	for _, words := range []string{"status", "ps"} {
		var out bytes.Buffer
		notes, err := controlCommand(t.Context(), &out, words, "--config", broken, "--state-dir", dir)
		if err != nil || !strings.Contains(out.String(), "one") || !strings.Contains(notes, "mcp.json:1:38: ") || !strings.Contains(notes, "\nhint: Correct the file there") {
			t.Errorf("%s: %v, stdout %q, stderr %q", words, err, &out, notes)
		}
	}
}

// list and status say the same of a server that a host runs.
func TestListAndStatusHaveTheSameWords(t *testing.T) {
	dir := t.TempDir()
	h := newFakeHost(dir)
	h.status.Servers = append(h.status.Servers, messages.HostServer{Name: "fresh", State: "IDLE", Breaker: "closed"})
	s, err := control.Serve(control.Options{StateDir: dir, Name: "one", Version: "1.2.3", Host: h})
	if err != nil {
		t.Fatal(err)
	}
	defer endFake(t, s)
	cfg := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(cfg, []byte(`{"mcpServers": {"broken": {"command": "x"}, "files": {"command": "x"}, "off": {"command": "x"}, "fresh": {"command": "x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"list", "status"} {
		var out bytes.Buffer
		root := newRoot(io.Discard)
		root.SetOut(&out)
		root.SetArgs([]string{name, "--config", cfg, "--state-dir", dir})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		for server, state := range map[string]string{"broken": "failed", "files": "active", "off": "disabled", "fresh": "not started"} {
			if row := regexp.MustCompile(`(?m)^` + server + `  +` + state + `  `); !row.Match(out.Bytes()) {
				t.Errorf("%s does not say that %s is %s:\n%s", name, server, state, &out)
			}
		}
	}
}

func TestControlCommands(t *testing.T) {
	base := t.TempDir()
	cfg := filepath.Join(base, "mcp.json")
	if err := os.WriteFile(cfg, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(base, "broken.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(config.FilesVariable, cfg)
	none, one, two := filepath.Join(base, "none"), filepath.Join(base, "one"), filepath.Join(base, "two")
	for _, dir := range []string{none, one, two} {
		if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "logs", "files.log"), []byte("first\nsecond\nthird\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := filepath.Join(base, "open")
	if err := errors.Join(os.MkdirAll(filepath.Join(open, attach.HostsDir), 0o700), os.Chmod(filepath.Join(open, attach.HostsDir), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := (&hostPlace{stateDir: open}).none(""); !strings.Contains(err.Error(), "no host runs for this configuration") || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("why no host is seen: %v", err)
	}
	serveFake(t, one, "work")
	serveFake(t, two, "a")
	serveFake(t, two, "b")

	for _, tt := range []struct {
		dir, line string
		exit      int      // as run would return it
		out       []string // in stdout
		not       string   // in no output
		err       string   // in the error
	}{
		{one, "status", exitOK, []string{"work (pid ", "metamcp 1.2.3", "/the/config.json", "2 of 20 places", "1 in flight, 42 since the start, 2 failed, 1 tool error"}, "", ""},
		{one, "status work", exitOK, []string{"broken  failed", "open", "again in 1h0m: 5× [stdio-exit] exit status 1 second", "7 of 9", "off     disabled"}, "\x1b", ""},
		{one, "status --json", exitOK, []string{`"name": "work"`, `"evictions": 0`}, "", ""},
		{one, "status --config " + broken, exitOK, []string{"work (pid "}, "", ""},
		{one, "status other", exitFailed, nil, "", "there are: work (pid"},
		{two, "status", exitUsage, nil, "", "choose one by name or process id: "},
		{two, "status b", exitOK, []string{"b (pid "}, "a (pid", ""},
		{none, "status", exitFailed, nil, "", "no host runs"},
		{none, "status a b", exitUsage, nil, "", ""},
		{none, "ps", exitOK, []string{"no host runs"}, "", ""},
		{open, "ps", exitFailed, nil, "", "is open to others (mode 755); use: chmod 700"},
		{open, "status", exitFailed, nil, "", "is open to others (mode 755)"},
		{none, "ps --json", exitOK, []string{`"hosts": []`}, "", ""},
		{one, "ps", exitOK, []string{"HOST", "work", "1.2.3", "conn#1", "active", "2m"}, "conn#2", ""},
		{two, "ps --all", exitOK, []string{"conn#2", "connecting", "a     files", "b     files"}, "", ""},
		{one, "ps --json", exitOK, []string{`"children": 1`, `"actor": "metamcp/pool/breaker/files~1/conn#1"`}, "conn#2", ""},
		{one, "logs files", exitOK, []string{"first\nsecond\nthird\n"}, "", ""},
		{two, "logs files --lines 2", exitOK, []string{"second\nthird\n"}, "first", ""},
		{two, "logs files --host a -n 1", exitOK, []string{"third\n"}, "second", ""},
		{none, "logs files -n 1", exitOK, []string{"third\n"}, "second", ""},
		{one, "logs nothing", exitFailed, nil, "", "there is no server nothing"},
		{none, "logs nothing", exitFailed, nil, "", "there is no log of \"nothing\""},
		{none, "logs files --host a", exitFailed, nil, "", "no host runs"},
		{none, "logs files --lines=-1", exitUsage, nil, "", "--lines"},
		{none, "logs", exitUsage, nil, "", ""},
	} {
		t.Run(filepath.Base(tt.dir)+" "+tt.line, func(t *testing.T) {
			var out bytes.Buffer
			notes, err := controlCommand(t.Context(), &out, append(strings.Fields(tt.line), "--state-dir", tt.dir)...)
			var usage usageError
			exit := exitOK
			switch {
			case errors.As(err, &usage):
				exit = exitUsage
			case err != nil:
				exit = exitFailed
			}
			if exit != tt.exit || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("exit %d, error %v; want exit %d and %q", exit, err, tt.exit, tt.err)
			}
			for _, want := range tt.out {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, &out)
				}
			}
			if tt.not != "" && strings.Contains(out.String()+notes, tt.not) {
				t.Errorf("%q is in\n%s%s", tt.not, &out, notes)
			}
		})
	}
}

// --watch and --follow go on until they are interrupted, which is no failure.
func TestControlCommandsThatGoOn(t *testing.T) {
	dir := t.TempDir()
	cfg := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(cfg, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(config.FilesVariable, cfg)
	serveFake(t, dir, "work")
	for _, tt := range []struct {
		line string
		seen func(out string) bool
	}{
		{"status --watch --json", func(out string) bool {
			line, rest, more := strings.Cut(out, "\n")
			var st messages.HostStatus
			return more && json.Unmarshal([]byte(line), &st) == nil && st.Name == "work" && strings.Contains(rest, "\n")
		}},
		{"status --watch", func(out string) bool { return strings.Count(out, "2 of 20 places") > 1 }},
		{"logs files --follow", func(out string) bool { return strings.Contains(out, "late\n") }},
	} {
		t.Run(tt.line, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var out lockedBuffer
			done := make(chan error, 1)
			go func() {
				_, err := controlCommand(ctx, &out, append(strings.Fields(tt.line), "--state-dir", dir)...)
				done <- err
			}()
			if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "logs", "files.log"), []byte("late\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, 30*time.Second, func() error {
				if !tt.seen(out.String()) {
					return errors.New("not seen in " + out.String())
				}
				return nil
			})
			interrupt()
			if err := <-done; err != nil {
				t.Errorf("interrupted: %v", err)
			}
		})
	}
}

// A host that ends under --watch is an error that says so.
func TestWatchedHostEnds(t *testing.T) {
	dir := t.TempDir()
	s := serveFake(t, dir, "work")
	var out lockedBuffer
	done := make(chan error, 1)
	go func() {
		_, err := controlCommand(t.Context(), &out, "status", "--watch", "--state-dir", dir)
		done <- err
	}()
	testkit.Eventually(t, 30*time.Second, func() error {
		if !strings.Contains(out.String(), "work") {
			return errors.New("nothing is shown")
		}
		return nil
	})
	endFake(t, s)
	var e *control.Error
	if err := <-done; !errors.As(err, &e) || e.Code != control.CodeUnreachable && e.Code != control.CodeShuttingDown {
		t.Errorf("the host ended: %v", err)
	}
}

func TestColoursKeepColumnsAligned(t *testing.T) {
	h := newFakeHost("")
	var plain, coloured bytes.Buffer
	if err := printStatus(&plain, &h.status, time.Now(), look{width: 120}); err != nil {
		t.Fatal(err)
	}
	if err := printStatus(&coloured, &h.status, time.Now(), look{width: 120, colours: true}); err != nil {
		t.Fatal(err)
	}
	text := coloured.String()
	if !strings.Contains(text, redInk+"failed"+plainInk) || !strings.Contains(text, greenInk+"active"+plainInk) {
		t.Errorf("no colours in\n%q", text)
	}
	for _, ink := range []string{plainInk, redInk, greenInk, yellowInk} {
		text = strings.ReplaceAll(text, ink, "")
	}
	if text != plain.String() {
		t.Errorf("without its colours it is\n%s\nwant\n%s", text, &plain)
	}
}

func TestStatusShowsDescriptors(t *testing.T) {
	h := newFakeHost("")
	h.status.Descriptors, h.status.DescriptorLimit = 31, 256
	var known, unknown bytes.Buffer
	if err := printStatus(&known, &h.status, time.Now(), look{}); err != nil || !strings.Contains(known.String(), "31 of 256 open") {
		t.Errorf("%v in\n%s", err, &known)
	}
	h.status.DescriptorLimit = 0 // the system does not tell
	if err := printStatus(&unknown, &h.status, time.Now(), look{}); err != nil || strings.Contains(unknown.String(), "descriptors") {
		t.Errorf("%v in\n%s", err, &unknown)
	}
}

// TestStatusSaysThatTheConfigurationIsOld, since its files show another one.
func TestStatusSaysThatTheConfigurationIsOld(t *testing.T) {
	h := newFakeHost("")
	h.status.ConfigProblem = "/the/config.json:1:38: not a JSON value"
	var out bytes.Buffer
	if err := printStatus(&out, &h.status, time.Now(), look{}); err != nil || !strings.Contains(out.String(), "\nproblem   ") || !strings.Contains(out.String(), "stays in force: "+h.status.ConfigProblem) {
		t.Errorf("%v in\n%s", err, &out)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 90 * time.Minute: "1h30m", 49 * time.Hour: "2d1h",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%s) = %s, want %s", d, got, want)
		}
	}
}

// lockedBuffer is a buffer that is read while somebody writes.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
