package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// tracingHost is a fake: whoever attaches gets the same records, and then the
// end, or nothing more.
type tracingHost struct {
	*fakeHost
	records  []messages.TraceRecord
	goesOn   bool
	attached chan struct{} // one for each viewer
}

// Trace implements control.Host.
func (h *tracingHost) Trace(context.Context) (<-chan messages.TraceRecord, error) {
	c := make(chan messages.TraceRecord, len(h.records))
	for _, r := range h.records {
		c <- r
	}
	if !h.goesOn {
		close(c)
	}
	h.attached <- struct{}{}
	return c, nil
}

func serveTracing(t *testing.T, dir, name string, goesOn bool) (s *control.Server, attached <-chan struct{}) {
	t.Helper()
	const viewers = 100
	h := &tracingHost{fakeHost: newFakeHost(dir), goesOn: goesOn, attached: make(chan struct{}, viewers)}
	for line := range strings.SplitSeq(tracedCall, "\n") {
		var r messages.TraceRecord
		if json.Unmarshal([]byte(line), &r) == nil && r.Kind != messages.TraceStart {
			h.records = append(h.records, r)
		}
	}
	s, err := control.Serve(control.Options{StateDir: dir, Name: name, Version: "1.2.3", Host: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endFake(t, s) })
	return s, h.attached
}

// traceHostCommand runs `metamcp trace …` with a state folder.
func traceHostCommand(ctx context.Context, out *lockedBuffer, words ...string) (notes string, err error) {
	var stderr lockedBuffer
	c := &common{logLevel: "warn", stderr: &stderr}
	root := &cobra.Command{Use: "metamcp", SilenceUsage: true, SilenceErrors: true}
	c.overlay = config.RegisterFlags(root.PersistentFlags())
	root.AddCommand(newTrace(c))
	root.SetOut(out)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"trace"}, words...))
	err = root.ExecuteContext(ctx)
	return stderr.String(), err
}

func TestTraceOfAHost(t *testing.T) {
	base := t.TempDir()
	cfg, file := filepath.Join(base, "mcp.json"), filepath.Join(base, "t.jsonl")
	for path, text := range map[string]string{cfg: "{}", file: tracedCall} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(config.FilesVariable, cfg)
	none, one, two := filepath.Join(base, "none"), filepath.Join(base, "one"), filepath.Join(base, "two")
	serveTracing(t, one, "work", false)
	serveTracing(t, two, "a", false)
	serveTracing(t, two, "b", false)
	t.Chdir(base) // where the folder one has the name of no host, and t.jsonl is a file

	for _, tt := range []struct {
		dir, line string
		exit      int
		out       []string // in stdout
		not       string   // in stdout
		says      string   // in the error or the notes
	}{
		{one, "work --for 1h", exitOK, []string{"REQUEST", "demo/echo", "other", "tool-error"}, "", "recording work (pid "},
		{one, "--for 1h --errors", exitOK, []string{"demo/echo"}, "other", "Ctrl-C"},
		{one, "work show 7 --for 1h", exitOK, []string{"request 7  demo/echo", "Call"}, "other", ""},
		{one, "work --json --for 1h", exitOK, []string{`"requests"`, `"outcome": "tool-error"`}, "", ""},
		{one, "work --html - --for 1h", exitOK, []string{"<!doctype html>", "demo~1"}, "", ""},
		{one, "work show 9 --for 1h", exitFailed, nil, "", `no request "9"; it has 2`},
		{one, "work --lines --for 1h", exitOK, []string{"start", "demo~1  Call", "other~1  Call", "tool-error"}, "\x1b", ""},
		{one, "--lines --json --for 1h", exitOK, []string{`{"v":2,`, `"kind":"start"`, `"server":"demo"`}, "", ""},
		{one, "--follow --for 1h --server other", exitOK, []string{"other~1  Call"}, "demo", ""},
		{one, "--lines --for 1h --actor demo --type Call", exitOK, []string{"demo~1  Call"}, "other", ""},
		{one, "--lines --for 1h --request 8", exitOK, []string{"other~1"}, "demo", ""},
		{one, "--lines --for 1h --errors", exitOK, []string{"tool-error"}, "Call", ""},
		{one, "t.jsonl", exitOK, []string{"demo/echo"}, "", ""},
		{one, "nothing", exitFailed, nil, "", "there is no file nothing (nor one of nothing.1 to nothing.9), and no running host has that name or process id; these run: work (pid "},
		{two, "--follow nothing", exitFailed, nil, "", "a (pid "},
		{none, "nothing", exitFailed, nil, "", "no host runs with the state folder " + none},
		{one, "one", exitFailed, nil, "", "one is a folder and no trace, and no running host"},
		{one, "t.jsonl --lines", exitFailed, nil, "", "t.jsonl is a file, which is read without"},
		{two, "--follow", exitUsage, nil, "", "choose one by name or process id: "},
		{none, "--follow", exitFailed, nil, "", "no host runs"},
		{one, "", exitUsage, nil, "", "needs a FILE or a HOST"},
		{one, "- --follow", exitUsage, nil, "", "standard input"},
		{one, "- --for 1s", exitUsage, nil, "", "standard input"},
		{one, "work show 7 --follow", exitUsage, nil, "", "show REQUEST"},
		{one, "work --lines --html -", exitUsage, nil, "", "--html"},
		{one, "work --follow --since 5m", exitUsage, nil, "", "--since"},
		{one, "work --follow --request x", exitUsage, nil, "", "request is a number"},
		{one, "work --follow --server [", exitUsage, nil, "", "no pattern"},
		{one, "work --for=-1s", exitUsage, nil, "", "--for"},
	} {
		t.Run(filepath.Base(tt.dir)+" "+tt.line, func(t *testing.T) {
			var out lockedBuffer
			notes, err := traceHostCommand(t.Context(), &out, append(strings.Fields(tt.line), "--state-dir", tt.dir)...)
			var usage usageError
			exit := exitOK
			switch {
			case errors.As(err, &usage):
				exit = exitUsage
			case err != nil:
				exit = exitFailed
				notes += err.Error()
			}
			if exit == exitUsage {
				notes += err.Error()
			}
			if exit != tt.exit || !strings.Contains(notes, tt.says) {
				t.Fatalf("exit %d, %q; want exit %d and %q", exit, notes, tt.exit, tt.says)
			}
			for _, want := range tt.out {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, out.String())
				}
			}
			if tt.not != "" && strings.Contains(out.String(), tt.not) {
				t.Errorf("%q is in\n%s", tt.not, out.String())
			}
		})
	}
}

// An interrupt is the end of a recording and of lines, and so are --for and the
// end of the host; none is a failure.
func TestTraceOfAHostEnds(t *testing.T) {
	for _, tt := range []struct {
		line string
		seen string // once it is there, the end comes
		host bool   // the host ends
		says string
	}{
		{"work --lines", "tool-error", false, ""},
		{"work --lines", "tool-error", true, "the host work ended"},
		{"work", "", true, "recording work"},
		{"work", "", false, "recording work"},
		{"work --lines --for 50ms", "", false, ""},
	} {
		t.Run(tt.line, func(t *testing.T) {
			dir := t.TempDir()
			s, attached := serveTracing(t, dir, "work", true)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var out lockedBuffer
			var notes string
			done := make(chan error, 1)
			go func() {
				var err error
				notes, err = traceHostCommand(ctx, &out, append(strings.Fields(tt.line), "--state-dir", dir)...)
				done <- err
			}()
			select {
			case <-attached:
			case err := <-done:
				t.Fatal(err)
			}
			testkit.Eventually(t, 30*time.Second, func() error {
				if !strings.Contains(out.String(), tt.seen) {
					return errors.New("not seen in " + out.String())
				}
				return nil
			})
			if tt.host {
				endFake(t, s)
			} else {
				interrupt()
			}
			if err := <-done; err != nil || !strings.Contains(notes, tt.says) {
				t.Errorf("%v, %q", err, notes)
			}
		})
	}
}
