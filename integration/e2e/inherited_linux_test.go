package e2e_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// fromShell starts metamcp from a shell that has a pipe open for writing as descriptor
// 9, which is said to be the channel of a Node.js parent, and the configuration for reading
// as descriptor 8. It returns the pipe's other end, which ends once nobody has the pipe any
// more.
func (p *place) fromShell(words ...string) (*testkit.Process, *os.File) {
	p.t.Helper()
	fifo := filepath.Join(p.t.TempDir(), "held")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		p.t.Fatal(err)
	}
	held, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = held.Close() })
	return testkit.StartCommand(p.t, testkit.Command{
		Path: "/bin/sh", Args: append([]string{"-c", `exec 9>"$1" 8<"$2"; export NODE_CHANNEL_FD=9 NODE_CHANNEL_SERIALIZATION_MODE=json; shift 2; exec "$@"`, "sh", fifo, p.config(), testkit.PlainBinary(p.t)}, words...),
		Env: p.env(), Dir: p.home,
	}), held
}

// What a shell has open, such as a lock or the pipe of a runner that waits for its end,
// is not kept open by a host in the background and its servers. A file that was named by
// its descriptor is there for the host, and for nobody else.
func TestAHostKeepsNothingOfItsShell(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"mcp.json", "/dev/fd/8"} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			seen := filepath.Join(t.TempDir(), "seen")
			p := newPlace(t, servers{"x": descriptorsOf(t, seen)}, nil)
			start, held := p.fromShell("host", "start", "--config", config)
			if status := start.Wait(t, patience); status != 0 {
				t.Fatalf("status %d: %s", status, start.Stderr)
			}
			stop := func() int {
				p, _ := p.fromShell("host", "stop", "--config", config)
				return p.Wait(t, patience)
			}
			t.Cleanup(func() { stop() })
			if err := held.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(held); err != nil {
				t.Errorf("the host has the pipe of the shell: %v", err)
			}
			attached, _ := p.fromShell("--attach", "require", "--config", config)
			c := &client{Lines: attached.Lines(t), p: attached, t: t}
			c.Handshake()
			c.echo("x", "here")
			if has, err := os.ReadFile(seen); err != nil || len(has) > 0 {
				t.Errorf("a server has descriptors of the shell: %q, %v", has, err)
			}
			if status := stop(); status != 0 {
				t.Errorf("the host is not stopped: status %d", status)
			}
		})
	}
}

// A server of a host that has a descriptor of its shell has none of it.
func TestServersHaveNothingOfTheShell(t *testing.T) {
	t.Parallel()
	seen := filepath.Join(t.TempDir(), "seen")
	p := newPlace(t, servers{"x": descriptorsOf(t, seen)}, nil)
	h, _ := p.fromShell("--attach", "never", "--config", "/dev/fd/8")
	c := &client{Lines: h.Lines(t), p: h, t: t}
	c.Handshake()
	c.echo("x", "here")
	if has, err := os.ReadFile(seen); err != nil || len(has) > 0 {
		t.Errorf("a server has descriptors of the shell: %q, %v", has, err)
	}
	c.p.CloseStdin()
	if status := h.Wait(t, patience); status != 0 {
		t.Errorf("status %d: %s", status, h.Stderr)
	}
}

// descriptorsOf is a server that first writes into a file which of the descriptors of
// fromShell it has, and what it is told of them.
func descriptorsOf(t testing.TB, file string) map[string]any {
	t.Helper()
	return map[string]any{"command": "/bin/sh", "args": []string{"-c", `: >"$1"
(true >&9) 2>/dev/null && echo 9 >>"$1"
(true <&8) 2>/dev/null && echo 8 >>"$1"
env | grep ^NODE_CHANNEL >>"$1"
exec "$0" demo-server`, testkit.PlainBinary(t), file}, "inheritEnv": true}
}
