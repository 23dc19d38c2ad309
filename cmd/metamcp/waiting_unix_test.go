//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// slowServer is a server behind a URL that answers nothing before start is closed. Its
// one tool is echo.
func slowServer(t *testing.T, start <-chan struct{}) (url string) {
	t.Helper()
	answers := map[string]string{
		"initialize": `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}`,
		"tools/list": `"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`,
		"tools/call": `"result":{"content":[{"type":"text","text":"it answers"}]}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, err := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || err != nil || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		select {
		case <-start:
		case <-r.Context().Done():
		}
		answer := answers[m.Method]
		switch {
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case answer == "":
			answer = `"error":{"code":-32601,"message":"no such method"}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer) // who asked may be gone
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A person at a terminal sees what a call and a script wait for; a pipe gets the answer
// alone.
func TestCallAndExecSayWhatTheyWaitFor(t *testing.T) {
	const line = `waiting for "slow" to start and list tools, `
	wiped := regexp.MustCompile(`\r {` + strconv.Itoa(len(line)+len("1s ")) + `,}\r$`)
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	script := filepath.Join(dir, "script.js")
	put(t, script, `console.log("begun"); return await servers.slow.echo({})`)
	for _, c := range []struct{ words, said string }{
		{"call slow echo", ""},
		{"exec " + script, "begun\n"},
	} {
		command, _, _ := strings.Cut(c.words, " ")
		t.Run(command, func(t *testing.T) {
			start := make(chan struct{})
			cfg := filepath.Join(t.TempDir(), "mcp.json")
			put(t, cfg, `{"mcpServers": {"slow": {"url": "`+slowServer(t, start)+`"}}}`)
			run := func(stderr io.Writer) (stdout string) {
				t.Helper()
				var out strings.Builder
				cmd := newRoot(io.Discard)
				cmd.SetArgs(append(strings.Fields(c.words), "--config", cfg, "--state-dir", t.TempDir()))
				cmd.SetOut(&out)
				cmd.SetErr(stderr)
				if err := cmd.ExecuteContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				return out.String()
			}
			person, tty, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer person.Close()
			told := make(chan string, 1)
			go func() { told <- readUntil(person, line, start) }()
			const answer = "it answers\n"
			if got := run(tty); got != answer {
				t.Errorf("at a terminal it prints %q", got)
			}
			if err := tty.Close(); err != nil {
				t.Fatal(err)
			}
			screen := strings.ReplaceAll(<-told, "\r\n", "\n")
			if !strings.HasPrefix(screen, c.said+"\r"+line) || !wiped.MatchString(screen) {
				t.Errorf("the terminal shows %q", screen)
			}
			var piped strings.Builder
			if got := run(&piped); got != answer || piped.String() != c.said {
				t.Errorf("not at a terminal it prints %q, and %q on stderr", got, piped.String())
			}
		})
	}
}

// readUntil reads all that a terminal shows, and closes seen when text is among it, or
// never came.
func readUntil(terminal *os.File, text string, seen chan<- struct{}) string {
	var all strings.Builder
	buf := make([]byte, 1<<10)
	late := time.AfterFunc(time.Minute, func() { close(seen) })
	for {
		n, err := terminal.Read(buf)
		all.Write(buf[:n])
		if strings.Contains(all.String(), text) && late.Stop() {
			close(seen)
		}
		if err != nil { // the other side is closed
			return all.String()
		}
	}
}
