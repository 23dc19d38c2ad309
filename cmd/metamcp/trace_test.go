package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const tracedCall = `{"v":2,"time":"2026-03-04T05:06:07Z","kind":"start","detail":"metamcp 1.0, pid 4711"}
{"v":2,"time":"2026-03-04T05:06:07.1Z","kind":"request","request":7,"to":"metamcp/session/1","server":"demo","tool":"echo"}
{"v":2,"time":"2026-03-04T05:06:07.2Z","kind":"message","request":7,"span":1,"to":"metamcp/pool/breaker/demo~1","type":"Call","waitNs":1000,"ranNs":2000}
{"v":2,"time":"2026-03-04T05:06:07.3Z","kind":"answer","request":7,"to":"metamcp/session/1","outcome":"tool-error","ranNs":200000000}
{"v":2,"time":"2026-03-04T05:07:07.2Z","kind":"message","request":8,"span":2,"to":"metamcp/pool/breaker/other~1","type":"Call","waitNs":1000,"ranNs":2000}
{"v":2,"time":"2026-03-04T05:0`

// traceCommand runs `metamcp trace …`.
func traceCommand(t *testing.T, stdin string, words ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	c := &common{stderr: &errOut}
	root := &cobra.Command{Use: "metamcp", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(newTrace(c))
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(append([]string{"trace"}, words...))
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

func TestTraceCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(file, []byte(tracedCall), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		words []string
		want  []string // in the output
		not   string
	}{
		{"list", []string{file}, []string{"REQUEST", "demo/echo", "tool-error", "200ms", "no answer"}, ""},
		{"standard input", []string{"-"}, []string{"demo/echo"}, ""},
		{"errors", []string{file, "--errors"}, []string{"demo/echo"}, "other"},
		{"server", []string{file, "--server", "oth*"}, []string{"other"}, "demo"},
		{"since", []string{file, "--since", "5s"}, []string{"other"}, "demo"},
		{"until", []string{file, "--until", "2026-03-04T05:06:30Z"}, []string{"demo"}, "other"},
		{"show", []string{file, "show", "7"}, []string{"request 7  demo/echo", "├", "Call"}, "\x1b"},
		{"ascii", []string{file, "show", "#7", "--ascii", "--color", "always"}, []string{"Call", "\x1b["}, "├"},
		{"mermaid", []string{file, "show", "7", "--mermaid"}, []string{"sequenceDiagram\n"}, ""},
		{"JSON", []string{file, "--json"}, []string{`"requests"`, `"outcome": "tool-error"`, "is cut"}, `"records"`},
		{"JSON of one", []string{file, "show", "8", "--json"}, []string{`"records"`, `"other`}, "echo"},
		{"HTML", []string{file, "--html", "-"}, []string{"<!doctype html>", "demo~1"}, ""},
		{"HTML of one", []string{file, "show", "7", "--html", "-"}, []string{"demo~1"}, "other~1"},
		{"Perfetto", []string{file, "--chrome", "-"}, []string{`"traceEvents"`}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, errOut, err := traceCommand(t, tracedCall, test.words...)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if test.not != "" && strings.Contains(out, test.not) {
				t.Errorf("%q in\n%s", test.not, out)
			}
			if !strings.Contains(errOut, "note: 1 line could not be read: line 6 is cut") {
				t.Errorf("stderr: %s", errOut)
			}
		})
	}
}

// A number that several runs have is that of the newest, and it is said which that is.
func TestTraceShowSaysWhichRun(t *testing.T) {
	run := tracedCall[:strings.LastIndex(tracedCall, "\n")+1]
	again := strings.ReplaceAll(strings.ReplaceAll(run, "demo", "later"), "2026-03-04", "2026-03-05")
	file := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(file, []byte(run+again), 0o600); err != nil {
		t.Fatal(err)
	}
	for show, want := range map[string]struct{ title, note string }{
		"7":   {"request 2/7  later/echo", "note: 7 is in 2 runs; this is 2/7\n"},
		"#7":  {"request 2/7  later/echo", "note: #7 is in 2 runs; this is 2/7\n"},
		"1/7": {"request 1/7  demo/echo", ""},
	} {
		out, errOut, err := traceCommand(t, "", file, "show", show)
		if err != nil || !strings.Contains(out, want.title) || errOut != want.note {
			t.Errorf("%s: %v, %q\n%s", show, err, errOut, out)
		}
	}
}

func TestTraceCommandWritesFiles(t *testing.T) {
	dir := t.TempDir()
	file, page, events := filepath.Join(dir, "t.jsonl"), filepath.Join(dir, "t.html"), filepath.Join(dir, "t.json")
	if err := os.WriteFile(file, []byte(tracedCall), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := traceCommand(t, "", file, "--html", page, "--chrome", events)
	if err != nil || out != "" {
		t.Fatalf("%q, %v", out, err)
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.HasSuffix(text, []byte("</html>\n")) {
		t.Errorf("the page: %v", err)
	}
	if text, err := os.ReadFile(events); err != nil || !json.Valid(text) {
		t.Errorf("the events: %v", err)
	}
	if _, _, err := traceCommand(t, "", file, "--html", file); err == nil {
		t.Error("the trace may be overwritten")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != tracedCall {
		t.Error("the trace was overwritten")
	}
	if _, _, err := traceCommand(t, "", file, "--html", filepath.Join(dir, "no", "x.html")); err == nil || !strings.Contains(err.Error(), "x.html") {
		t.Errorf("into no folder: %v", err)
	}
}

func TestTraceCommandRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "t.jsonl")
	if err := os.WriteFile(file, []byte(tracedCall), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		words []string
		want  string
		usage bool
	}{
		{nil, "needs a FILE", true},
		{[]string{file, "show"}, "number of a REQUEST", true},
		{[]string{file, "list"}, "FILE show REQUEST", true},
		{[]string{file, "--mermaid"}, "show REQUEST --mermaid", true},
		{[]string{file, "--html", "-", "--chrome", "-"}, "only one", true},
		{[]string{file, "--json", "--html", "-"}, "--json", true},
		{[]string{file, "--since", "soon"}, "--since", true},
		{[]string{file, "--color", "red"}, "auto, always or never", true},
		{[]string{file, "show", "9"}, `no request "9"; it has 2, from 7 to 8`, false},
		{[]string{filepath.Join(dir, "none")}, "none.9", false},
		{[]string{dir}, "is a folder", false},
		{[]string{"-"}, "it is empty", false},
	} {
		_, _, err := traceCommand(t, "", test.words...)
		var usage usageError
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.As(err, &usage) != test.usage {
			t.Errorf("%q: %v; want %q, usage %v", test.words, err, test.want, test.usage)
		}
	}
}
