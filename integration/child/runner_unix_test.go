//go:build unix

package child

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/child/proctree"
)

func shell(script string) *Program {
	return &Program{Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ()}
}

func TestRunner(t *testing.T) {
	g := new(notes)
	r := NewRunner(g)
	dir := t.TempDir()
	p := shell(`echo out; echo err >&2; pwd; echo $METAMCP_TREE; read x || echo no input; exit 3`)
	p.Dir = dir
	o, err := r.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(o.Stdout), "\n")
	if len(lines) != 5 || lines[0] != "out" || filepath.Base(lines[1]) != filepath.Base(dir) || !strings.HasPrefix(lines[2], "host.") || lines[3] != "no input" ||
		string(o.Stderr) != "err\n" || o.Code != 3 || o.Signal != "" {
		t.Errorf("the outcome is %+v: %q", o, lines)
	}
	if len(g.lines) != 3 || g.lines[0] != "ready" || !strings.HasSuffix(g.lines[1], " "+lines[2]) || !strings.HasPrefix(g.lines[2], "remove ") {
		t.Errorf("the guard heard %q", g.lines)
	}
	if o, err := r.Run(t.Context(), shell("kill -TERM $$")); err != nil || o.Signal != "SIGTERM" {
		t.Errorf("ended by a signal: %+v, %v", o, err)
	}
	if _, err := r.Run(t.Context(), &Program{Path: "/no/such/program"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestRunnerBoundsOutput(t *testing.T) {
	p := shell("dd if=/dev/zero bs=65536 count=64 2>/dev/null; echo done >&2")
	p.MaxOutput = 1000
	o, err := NewRunner(nil).Run(t.Context(), p)
	if err != nil || len(o.Stdout) != 1000 || string(o.Stderr) != "done\n" {
		t.Errorf("%d bytes, %q, %v", len(o.Stdout), o.Stderr, err)
	}
}

// alive reads a pid from a file and reports whether that process lives.
func alive(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	_, ok := proctree.StartTime(pid)
	return ok
}

// TestRunnerEndsTheTree: when Run returns, nobody is left, whether the program
// ended by itself or was given up.
func TestRunnerEndsTheTree(t *testing.T) {
	const leave = `(trap '' TERM; echo $(exec sh -c 'echo $PPID') >"$0/left"; exec sleep 600) & while ! [ -s "$0/left" ]; do :; done; `
	t.Run("ended", func(t *testing.T) {
		dir := t.TempDir()
		p := shell(leave + "exit 0")
		p.Args = append(p.Args, dir)
		if o, err := NewRunner(nil).Run(t.Context(), p); err != nil || o.Code != 0 {
			t.Fatalf("%+v, %v", o, err)
		}
		if alive(t, filepath.Join(dir, "left")) {
			t.Error("a process is left")
		}
	})
	t.Run("given up", func(t *testing.T) {
		dir := t.TempDir()
		p := shell(leave + `echo ready >"$0/ready"; wait`)
		p.Args = append(p.Args, dir)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := NewRunner(nil).Run(ctx, p)
			ended <- err
		}()
		deadline := time.Now().Add(time.Minute)
		for {
			if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the program did not begin")
			}
			<-time.After(5 * time.Millisecond)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it says %v", err)
		}
		if alive(t, filepath.Join(dir, "left")) {
			t.Error("a process is left")
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewRunner(nil).Run(ctx, shell("true")); !errors.Is(err, context.Canceled) {
		t.Errorf("given up before: %v", err)
	}
}
