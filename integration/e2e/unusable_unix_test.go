//go:build unix

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// oddServer is a server in shell whose answers are what SDKs do not write: not
// UTF-8, broken, too large with the id at its end, with ids in floating point, and
// behind log lines in JSON that name the request.
const oddServer = `
log() { printf '{"level":"warn","id":%s,"error":"timeout, retrying"}\n{"event":"done","id":%s,"result":"ok"}\n' "$id" "$id"; }
say() { log; printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { say '{"content":[{"type":"text","text":"'"$1"'"}]}'; }
while read -r line; do
	id=$(printf %s "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\).*/\1/p')
	case $line in
	*'"method":"initialize"'*) say '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}' ;;
	*'"method":"tools/list"'*) say '{"tools":[{"name":"latin1","inputSchema":{"type":"object"}},{"name":"broken","inputSchema":{"type":"object"}},{"name":"bare","inputSchema":{"type":"object"}},{"name":"float","inputSchema":{"type":"object"}},{"name":"huge","inputSchema":{"type":"object"}}]}' ;;
	*'"name":"latin1"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"a\377b"}]}}\n' "$id" ;;
	*'"name":"broken"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"a\n' "$id" ;;
	*'"name":"bare"'*) printf '{"id":%s,"result":{"content":[]}}\n' "$id" ;;
	*'"name":"float"'*) id=$id.0; text seven ;;
	*'"name":"huge"'*) printf '{"result":{"content":[{"type":"text","text":"'; head -c 73400320 /dev/zero | tr '\0' x; printf '"}]},"jsonrpc":"2.0","id":%s}\n' "$id" ;;
	esac
done
`

// Answers that cannot be read as they are fail at once and say why, or are
// repaired, and the server stays.
func TestAnswersOfAnOddServer(t *testing.T) {
	t.Parallel()
	m, entry := mark(t, map[string]any{"command": "/bin/sh", "args": []string{"-c", oddServer}, "timeoutMs": 600_000})
	c := host(t, servers{"odd": entry}, nil)
	if got := textOf(t, c.call("odd", "latin1", `{}`)); got != "a\ufffdb" {
		t.Errorf("text that is not UTF-8 is %q", got)
	}
	if got := textOf(t, c.call("odd", "float", `{}`)); got != "seven" {
		t.Errorf("an answer with a floating id is %q", got)
	}
	pid := alive(t, m)[0].PID
	for tool, want := range map[string]string{"broken": "cannot be read", "bare": `"jsonrpc" must be`, "huge": "larger than 64 MiB"} {
		r := c.refuse("odd", tool, `{}`, "TOOL_EXECUTION_ERROR")
		if !strings.Contains(r.Message, want) {
			t.Errorf("%s: %s, want %q", tool, r, want)
		}
		if tool == "broken" && !strings.Contains(strings.Join(r.Details, "\n"), `"text":"a`) {
			t.Errorf("the line is not quoted: %s", r)
		}
	}
	c.call("odd", "latin1", `{}`)
	if now := alive(t, m); now[0].PID != pid {
		t.Errorf("the server is %v, was %d", now, pid)
	}
}

// The configuration becomes a pipe without a writer and a file again: the host
// goes on, takes over what the file says, and ends while it is a pipe.
func TestConfigurationBecomesAPipe(t *testing.T) {
	t.Parallel()
	entry := named(t, "before")
	c := host(t, servers{"x": entry}, nil)
	c.echo("x", "ready")
	pipe := func() {
		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(fifo, c.p.ConfigFile()); err != nil {
			t.Fatal(err)
		}
	}
	said := func(n int) {
		t.Helper()
		eventually(t, "the log does not tell of the pipe", func() bool { return strings.Count(c.p.Stderr.String(), "no regular file") >= n })
	}
	pipe()
	said(1)
	c.echo("x", "still here")
	if err := os.Remove(c.p.ConfigFile()); err != nil {
		t.Fatal(err)
	}
	c.rewrite(servers{"x": entry, "added": named(t, "added")}, nil)
	c.reaches("added", "added")
	pipe()
	said(2)
	c.p.CloseStdin()
	if code := c.p.Wait(t, patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
}
