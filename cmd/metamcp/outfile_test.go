package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// textFile writes a file and returns its name.
func textFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// holds fails where the file does not hold the text.
func holds(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s holds %q, %v; want %q", filepath.Base(path), text, err, want)
	}
}

// refusedAsForeign fails unless the error is that a file holds something else.
func refusedAsForeign(t *testing.T, path string, err error) {
	t.Helper()
	var usage usageError
	if !errors.As(err, &usage) || !strings.HasPrefix(err.Error(), path+" holds something else than ") || !strings.Contains(err.Error(), "give another name or remove it first") {
		t.Errorf("%s: %v", filepath.Base(path), err)
	}
}

func TestTraceReplacesOnlyItsOwnFiles(t *testing.T) {
	dir := t.TempDir()
	file := textFile(t, dir, "t.jsonl", tracedCall)
	page, events := textFile(t, dir, "t.html", ""), filepath.Join(dir, "t.json")
	for _, words := range [][]string{{file}, {file, "show", "7"}} { // the second files are shorter
		if _, _, err := traceCommand(t, "", append(words, "--html", page, "--chrome", events)...); err != nil {
			t.Fatal(err)
		}
		for path, flag := range map[string]string{page: "--html", events: "--chrome"} {
			want, _, err := traceCommand(t, "", append(words, flag, "-")...)
			if err != nil {
				t.Fatal(err)
			}
			holds(t, path, want)
		}
	}
	own, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.html")
	for name, text := range map[string]string{
		"mcp.json": `{"mcpServers": {"x": {"env": {"KEY": "secret"}}}}`, "own.html": "<!doctype html>\n<html lang=\"en\">\n<title>Notes</title>\n",
		"own.json": `{"traceEvents":[]}`, "again.jsonl": tracedCall,
	} {
		path := textFile(t, dir, name, text)
		for _, flag := range []string{"--html", "--chrome"} {
			_, _, err := traceCommand(t, "", file, flag, path)
			refusedAsForeign(t, path, err)
		}
		_, _, err := traceCommand(t, "", file, "--html", other, "--chrome", path)
		refusedAsForeign(t, path, err)
		holds(t, path, text)
	}
	if _, err := os.Lstat(other); err == nil {
		t.Error("the page was written though the events could not be")
	}
	_, _, err = traceCommand(t, "", file, "--chrome", page)
	refusedAsForeign(t, page, err)
	holds(t, page, string(own))
	holds(t, file, tracedCall)
}

// benchCommand runs `metamcp bench search …` by words alone.
func benchCommand(t *testing.T, words ...string) error {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	cfg := textFile(t, dir, "mcp.json", `{"mcpServers": {}}`)
	cmd := newRoot(io.Discard)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(append([]string{"bench", "search", "--config", cfg, "--embedder", "none"}, words...))
	return cmd.ExecuteContext(t.Context())
}

func TestBenchReplacesOnlyItsOwnResults(t *testing.T) {
	const tool = `{"source":"a","server":"files","tool":"read_file","description":"Read the contents of a file"}` + "\n"
	// Written without blanks a query begins as a result does.
	const query = `{"id":"1","source":"a","query":"read_file"}` + "\n"
	dir := t.TempDir()
	catalog, queries := textFile(t, dir, "tools.jsonl", tool), textFile(t, dir, "q.jsonl", query)
	inputs := []string{"--catalog", catalog, "--queries", queries}
	foreign := textFile(t, dir, "other.json", `{"secret": 1}`)
	for path, text := range map[string]string{catalog: tool, queries: query, foreign: `{"secret": 1}`} {
		refusedAsForeign(t, path, benchCommand(t, append(inputs, "--run", path)...))
		holds(t, path, text)
	}
	run := filepath.Join(dir, "run.jsonl")
	results := func() string {
		t.Helper()
		if err := benchCommand(t, append(inputs, "--run", run)...); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(run)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// An id that needs quoting, and a query that finds nothing.
	for _, q := range []string{query, `{"id":"a\"b","source":"a","query":"zzzz"}`, query + query} {
		textFile(t, dir, "q.jsonl", q)
		before := results()
		if after := results(); after != before || strings.Count(after, `"results":`) != strings.Count(q, `"id"`) {
			t.Errorf("%s: %s, then %s", q, before, after)
		}
	}
	// Where there is nothing new the earlier results stay.
	before := results()
	textFile(t, dir, "q.jsonl", query+"{}\n")
	if err := benchCommand(t, append(inputs, "--run", run)...); err == nil {
		t.Error("a query without an id was taken")
	}
	holds(t, run, before)
}

func TestOutFile(t *testing.T) {
	dir := t.TempDir()
	never := func([]byte) bool { return false }
	text := func(w io.Writer) error {
		_, err := w.Write(bytes.Repeat([]byte("x"), 100))
		return err
	}
	null := outFile{path: os.DevNull, kind: "x", ours: never}
	if err := errors.Join(null.check(), null.write(text)); err != nil {
		t.Errorf("a device: %v", err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "no", "file")} {
		o := outFile{path: path, kind: "x", ours: never}
		if err := o.check(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
		if err := o.write(text); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	// What comes to stand there after it was looked at stays too.
	late := outFile{path: filepath.Join(dir, "late"), kind: "x", ours: never}
	if err := late.check(); err != nil {
		t.Fatal(err)
	}
	textFile(t, dir, "late", "of somebody")
	if err := late.write(text); err == nil || !strings.Contains(err.Error(), "something else than x") {
		t.Errorf("a late file: %v", err)
	}
	holds(t, late.path, "of somebody")
}
