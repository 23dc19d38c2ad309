//go:build unix

package doctor_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/testkit"
)

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	good := write(t, filepath.Join(bin, "good"), "#!/bin/sh\n", 0o755)
	plain := write(t, filepath.Join(bin, "plain"), "#!/bin/sh\n", 0o644)
	lost := write(t, filepath.Join(bin, "lost"), "#!/nowhere/python\n", 0o755)
	env := write(t, filepath.Join(bin, "env"), "#!/usr/bin/env -S good-runtime --flag\n", 0o755)
	split := write(t, filepath.Join(bin, "split"), "#!/usr/bin/env FOO=1 good\n", 0o755)
	elsewhere := write(t, filepath.Join(dir, "elsewhere", "tool"), "\x7fELF", 0o755)
	write(t, filepath.Join(dir, "a file"), "", 0o600)
	for _, c := range []struct {
		name  string
		entry object
		want  want
	}{
		{"in PATH", object{"command": "good"}, want{"command.found", "", doctor.OK, good, ""}},
		{"nowhere", object{"command": "nothing"}, want{"command.found", "", doctor.Fail, `"nothing" is not in the PATH`, "mcp.json:1"}},
		{"npx", object{"command": "npx"}, want{"command.found", "", doctor.Fail, `"npx"`, "Install Node.js"}},
		{"in a PATH of its own", object{"command": "tool", "env": object{"PATH": filepath.Dir(elsewhere)}}, want{"command.found", "", doctor.OK, elsewhere, ""}},
		{"not in a PATH of its own", object{"command": "good", "env": object{"PATH": filepath.Dir(elsewhere)}}, want{"command.found", "", doctor.Fail, "", ""}},
		{"not executable", object{"command": "plain"}, want{"command.executable", "", doctor.Fail, plain + " is not executable", "chmod +x " + plain}},
		{"a path", object{"command": elsewhere}, want{"command.found", "", doctor.OK, elsewhere, ""}},
		{"no such path", object{"command": elsewhere + "2"}, want{"command.found", "", doctor.Fail, "there is no file " + elsewhere + "2", "mcp.json:1"}},
		{"with its arguments", object{"command": "good --flag x"}, want{"command.found", "", doctor.Fail, `"good --flag x" is not in the PATH`, `{"command": "good", "args": ["--flag", "x"]}`}},
		{"a path with its arguments", object{"command": elsewhere + " --flag"}, want{"command.found", "", doctor.Fail, "there is no file", `"args": ["--flag"]}. The entry is at `}},
		{"a path with a blank", object{"command": filepath.Join(dir, "not there")}, want{"command.found", "", doctor.Fail, "there is no file", "Install it"}},
		{"a folder", object{"command": bin}, want{"command.executable", "", doctor.Fail, "is a folder", "Name the program in it"}},
		{"a lost interpreter", object{"command": "lost"}, want{"command.interpreter", "", doctor.Fail, lost + ` is a script, and its interpreter "/nowhere/python"`, "Install Python"}},
		{"a lost interpreter by env", object{"command": "env"}, want{"command.interpreter", "", doctor.Fail, env + ` is a script, and its interpreter "good-runtime"`, "first line"}},
		{"env with a variable", object{"command": "split"}, want{"command.found", "", doctor.OK, split, ""}},
		{"a lost folder", object{"command": "good", "cwd": filepath.Join(dir, "not there")}, want{"command.cwd", "", doctor.Fail, "no such file", "mkdir -p '"}},
		{"a file for a folder", object{"command": "good", "cwd": filepath.Join(dir, "a file")}, want{"command.cwd", "", doctor.Fail, "no folder", ""}},
		{"under a folder", object{"command": "./tool", "cwd": filepath.Dir(elsewhere)}, want{"command.found", "", doctor.OK, elsewhere, ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := patient(t, dir, object{"it": c.entry}, nil)
			results := examine(t, p, doctor.GroupCommands)
			c.want.subject = "it"
			expect(t, results, c.want)
			for _, r := range results {
				if r.Subject == "it" && r.ID != c.want.id {
					t.Errorf("also %+v", r)
				}
			}
		})
	}
	if r := examine(t, patient(t, dir, object{}, nil), doctor.GroupCommands); len(r) != 1 || r[0].Status != doctor.Skipped {
		t.Errorf("without servers: %+v", r)
	}
}

// A relative working folder is another one for each client, unless the file is the folder's.
func TestRelativeWorkingFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	tool := write(t, filepath.Join(dir, "sub", "tool"), "#!/bin/sh\n", 0o755)
	text := configText(t, object{"it": object{"command": "./tool", "cwd": "sub"}}, nil)
	found := want{"command.found", "it", doctor.OK, filepath.Join("sub", "tool"), ""}
	for name, warned := range map[string]bool{"mcp.json": true, ".metamcp/mcp.json": true, ".mcp.json": false} {
		results := examine(t, patientOf(t, dir, write(t, filepath.Join(dir, name), text, 0o600)), doctor.GroupCommands)
		expect(t, results, found)
		if warned {
			expect(t, results, want{"command.cwd", "it", doctor.Warn, "sub is relative to the folder in which metamcp is started", "mcp.json:1: " + filepath.Dir(tool)})
		} else if len(results) > 1 {
			t.Errorf("%s: %+v", name, results)
		}
	}
}

func TestRuntimes(t *testing.T) {
	say := func(text string) string { return "#!/bin/sh\necho '" + text + "'\n" }
	for _, c := range []struct {
		name    string
		scripts map[string]string
		command string
		want    want
	}{
		{"a new node", map[string]string{"npx": say(""), "node": say("v22.1.0")}, "npx", want{"command.runtime", "node", doctor.OK, "v22.1.0", ""}},
		{"an old node", map[string]string{"npx": say(""), "node": say("v16.20.2")}, "npx", want{"command.runtime", "node", doctor.Warn, "for one, two", "Install Node.js 20"}},
		{"an odd node", map[string]string{"node": say("hello")}, "node", want{"command.runtime", "node", doctor.Warn, "hello", "--version"}},
		{"no node", map[string]string{"npx": say("")}, "npx", want{"command.runtime", "node", doctor.Fail, `"node" is not in the PATH`, "Install Node.js"}},
		{"a node that fails", map[string]string{"node": "#!/bin/sh\necho broken library >&2; exit 127\n"}, "node", want{"command.runtime", "node", doctor.Fail, "exit status 127: broken library", "by hand"}},
		{"uvx", map[string]string{"uvx": say("uvx 0.9.1")}, "uvx", want{"command.runtime", "uvx", doctor.OK, "uvx 0.9.1", ""}},
		{"no uvx", nil, "uvx", want{"command.runtime", "uvx", doctor.Skipped, "see command.found", ""}},
		{"python", map[string]string{"python3": say("Python 3.12.1")}, "python3", want{"command.runtime", "python3", doctor.OK, "Python 3.12.1", ""}},
		{"docker", map[string]string{"docker": say("27.0.1")}, "docker", want{"command.runtime", "docker", doctor.OK, "daemon 27.0.1", ""}},
		{"no daemon", map[string]string{"docker": "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2; exit 1\n"}, "docker", want{"command.runtime", "docker", doctor.Fail, "Cannot connect to the Docker daemon", "systemctl start docker"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.scripts {
				write(t, filepath.Join(dir, "bin", name), text, 0o755)
			}
			p := patient(t, dir, object{"one": object{"command": c.command}, "two": object{"command": c.command}}, nil)
			results := examine(t, p, doctor.GroupCommands)
			expect(t, results, c.want)
			n := 0
			for _, r := range results {
				if r.ID == "command.runtime" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("one runtime of two servers was asked %d times: %+v", n, results)
			}
		})
	}
}

// A runtime that hangs is given up, and ended with what it started.
func TestRuntimeThatHangs(t *testing.T) {
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	write(t, filepath.Join(dir, "bin", "node"), "#!/bin/sh\n/bin/sleep 600 &\necho $! > '"+pids+".new'; /bin/mv '"+pids+".new' '"+pids+"'\nwait\n", 0o755)
	p := patient(t, dir, object{"one": object{"command": "node"}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := make(chan []doctor.Result, 1)
	for _, c := range p.Checks() {
		if c.ID == "command.runtime" {
			go func() { found <- c.Run(ctx) }()
		}
	}
	var pid int
	testkit.Eventually(t, 20*time.Second, func() error {
		text, err := os.ReadFile(pids)
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	})
	cancel()
	select {
	case results := <-found:
		expect(t, results, want{"", "", doctor.Fail, "did not end in time", "by hand"})
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a program that hangs")
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if _, alive := proctree.StartTime(pid); alive {
			return os.ErrExist
		}
		return nil
	})
}
