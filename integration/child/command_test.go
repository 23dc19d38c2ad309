package child

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// What Windows starts is looked for where the child will run, and in its environment.
func TestResolveByExtension(t *testing.T) {
	cwd, tools, hosts := t.TempDir(), t.TempDir(), t.TempDir()
	for _, file := range []string{
		filepath.Join(cwd, "server.exe"), filepath.Join(cwd, "bin", "here.bat"), filepath.Join(cwd, "plain"),
		filepath.Join(tools, "npx"), filepath.Join(tools, "npx.cmd"), filepath.Join(tools, "odd.v2.exe"), filepath.Join(tools, "script.py"),
		filepath.Join(tools, "dir.exe", "x"), filepath.Join(hosts, "npx.exe"), filepath.Join(hosts, "own.exe"),
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(hosts)
	t.Setenv("PATH", hosts)
	t.Setenv("PATHEXT", "")
	path := "Path=" + strings.Join([]string{filepath.Join(cwd, "none"), tools}, string(os.PathListSeparator))
	for _, c := range []struct {
		command string
		env     []string
		want    string // "": it is not found
		text    string
	}{
		{command: "./server.exe", want: filepath.Join(cwd, "server.exe")},
		{command: "./server", want: filepath.Join(cwd, "server.exe")},
		{command: "bin/here", want: filepath.Join(cwd, "bin", "here.bat")},
		{command: "./plain", want: filepath.Join(cwd, "plain")},
		{command: filepath.Join(tools, "npx"), want: filepath.Join(tools, "npx.cmd")},
		{command: "./own.exe", text: filepath.Join(cwd, "own.exe")},
		{command: "./bin", text: "is a folder"},
		{command: "npx", env: []string{path}, want: filepath.Join(tools, "npx.cmd")},
		{command: "npx.cmd", env: []string{path}, want: filepath.Join(tools, "npx.cmd")},
		{command: "odd.v2", env: []string{path}, want: filepath.Join(tools, "odd.v2.exe")},
		{command: "script", env: []string{path, "PathExt=.EXE; PY;"}, want: filepath.Join(tools, "script.py")},
		{command: "script", env: []string{path}, text: tools},
		{command: "dir", env: []string{path}, text: tools},
		{command: "own", env: []string{path}, text: tools},
		{command: "own", want: filepath.Join(hosts, "own.exe")},
		{command: "own", env: []string{"PATH="}, text: "not found in PATH ()"},
		{command: "server", env: []string{path}, text: tools},
		{command: "here", env: []string{"PATH=bin"}, want: filepath.Join(cwd, "bin", "here.bat")},
		{command: "", text: "is empty"},
	} {
		got, err := resolveByExtension(&messages.ServerSpec{Name: "s", Command: c.command, Cwd: cwd, Env: c.env})
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q with %q is %q, %v; want %q", c.command, c.env, got, err, c.want)
			continue
		}
		var cause *exec.Error
		if err != nil && (!errors.Is(err, ErrNoCommand) || !errors.As(err, &cause) || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%q with %q: %v, which does not say %q", c.command, c.env, err, c.text)
		}
	}
	got, err := resolveByExtension(&messages.ServerSpec{Command: "./own"})
	if want := filepath.Join(hosts, "own.exe"); err != nil || !sameFile(t, got, want) || !filepath.IsAbs(got) {
		t.Errorf("without a working directory ./own is %q, %v; want %q", got, err, want)
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
