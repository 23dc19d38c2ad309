//go:build unix

package doctor_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/audit"
	"github.com/metamcp/metamcp/integration/doctor"
)

// withState is a machine whose state folder has a mode.
func withState(t *testing.T, mode os.FileMode) (p *doctor.Patient, state string) {
	t.Helper()
	dir := t.TempDir()
	state = filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(state, mode); err != nil {
		t.Fatal(err)
	}
	return patient(t, dir, nil, object{"stateDir": state}), state
}

func TestStateFolder(t *testing.T) {
	p, state := withState(t, 0o700)
	results := examine(t, p, doctor.GroupState)
	for _, id := range []string{"state.folder", "state.modes", "state.space", "state.catalog", "state.audit", "state.trust", "state.logs"} {
		expect(t, results, want{id, "", doctor.OK, "", ""})
	}
	if left, err := os.ReadDir(state); err != nil || len(left) != 0 {
		t.Errorf("doctor left %v, %v", left, err)
	}

	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, p, doctor.GroupState), want{"state.folder", "", doctor.OK, "is not there yet", ""})
	expect(t, examine(t, p, doctor.GroupState), want{"state.modes", "", doctor.Skipped, "", ""})
	if _, err := os.Stat(state); err == nil {
		t.Error("doctor has made the state folder")
	}
	write(t, state, "", 0o600)
	expect(t, examine(t, p, doctor.GroupState), want{"state.folder", "", doctor.Fail, "is not a folder", "--state-dir"})

	p.Config.Settings.StateDir = ""
	expect(t, examine(t, p, doctor.GroupState), want{"state.folder", "", doctor.Warn, "no state folder is known", "--state-dir"})
}

func TestTrustFile(t *testing.T) {
	p, state := withState(t, 0o700)
	expect(t, examine(t, p, doctor.GroupState), want{"state.trust", "", doctor.OK, "is not there yet", ""})
	path := filepath.Join(state, "trusted-servers.json")
	write(t, path, `{"trusted": ["@modelcontextprotocol/*"], "blocked": ["npm:evil"]}`, 0o600)
	expect(t, examine(t, p, doctor.GroupState), want{"state.trust", "", doctor.OK, "1 trusted, 1 blocked", ""})
	write(t, path, "{bad", 0o600)
	expect(t, examine(t, p, doctor.GroupState), want{"state.trust", "", doctor.Fail, path, "delete it"})
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  os.FileMode
		files map[string]os.FileMode
		want  want
	}{
		{"private", 0o700, map[string]os.FileMode{"audit.jsonl": 0o644}, want{"", "", doctor.OK, "only this user", ""}},
		{"open, with private files", 0o755, map[string]os.FileMode{"audit.jsonl": 0o600}, want{"", "", doctor.Warn, "mode 755), though nothing in it is", "chmod 700"}},
		{"open, with open files", 0o755, map[string]os.FileMode{"logs/a.log": 0o644}, want{"", "", doctor.Fail, "and so is what is in it", "chmod 700"}},
		{"models are no secret", 0o755, map[string]os.FileMode{"models/a.gguf": 0o644}, want{"", "", doctor.Warn, "though nothing", ""}},
		{"open to the group", 0o750, map[string]os.FileMode{"logs/a.log": 0o640}, want{"", "", doctor.Fail, "mode 750", ""}},
		{"a folder in it, where others may write", 0o755, map[string]os.FileMode{"oauth/a.json": 0o600, "servers/": 0o777}, want{"", "", doctor.Fail, "and so is what is in it", "chmod 700"}},
		{"others may write", 0o777, nil, want{"", "", doctor.Fail, "can be written to by others", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, state := withState(t, c.mode)
			for name, mode := range c.files {
				if folder := filepath.Join(state, name); strings.HasSuffix(name, "/") {
					if err := errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, mode)); err != nil {
						t.Fatal(err)
					}
					continue
				}
				path := write(t, filepath.Join(state, name), "x", mode)
				if folder := filepath.Dir(path); folder != state {
					if err := os.Chmod(folder, 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			c.want.id = "state.modes"
			expect(t, examine(t, p, doctor.GroupState), c.want)
			if info, err := os.Stat(state); err != nil || info.Mode().Perm() != c.mode {
				t.Errorf("without --fix the mode is %v now, %v", info.Mode(), err)
			}
			p.Fix = true
			r := expect(t, examine(t, p, doctor.GroupState), want{"state.modes", "", doctor.OK, "", ""})
			if r.Fixed != (c.want.status != doctor.OK) {
				t.Errorf("%+v", r)
			}
			if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("after --fix the mode is %v, %v", info.Mode(), err)
			}
		})
	}
}

func TestModeOfTheHostsFolder(t *testing.T) {
	p, state := withState(t, 0o700)
	hosts := filepath.Join(state, "hosts")
	if err := os.Mkdir(hosts, 0o700); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, p, doctor.GroupState), want{"state.hosts-mode", "", doctor.OK, "private", ""})
	if err := os.Chmod(hosts, 0o755); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, p, doctor.GroupState), want{"state.hosts-mode", "", doctor.Fail, "mode 755", "chmod 700 " + hosts})
	p.Fix = true
	if r := expect(t, examine(t, p, doctor.GroupState), want{"state.hosts-mode", "", doctor.OK, "closed now", ""}); !r.Fixed {
		t.Errorf("%+v", r)
	}
	if info, err := os.Stat(hosts); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestCatalogLock(t *testing.T) {
	p, state := withState(t, 0o700)
	lock := write(t, filepath.Join(state, "catalog", "LOCK"), strconv.Itoa(os.Getpid())+"\n", 0o600)
	expect(t, examine(t, p, doctor.GroupState), want{"state.catalog", "", doctor.OK, "in use by nobody", ""})
	f, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, p, doctor.GroupState), want{"state.catalog", "", doctor.OK, "in use by process " + strconv.Itoa(os.Getpid()), ""})
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(lock, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, p, doctor.GroupState), want{"state.catalog", "", doctor.Fail, "not a regular file", "rm -r"})
	p.Config.Settings.CacheEnabled = false
	expect(t, examine(t, p, doctor.GroupState), want{"state.catalog", "", doctor.Skipped, "", ""})
}

func TestAuditLog(t *testing.T) {
	p, _ := withState(t, 0o700)
	file := p.Config.Settings.Audit.File
	expect(t, examine(t, p, doctor.GroupState), want{"state.audit", "", doctor.OK, "no audit log yet", ""})
	l, err := audit.Open(audit.Options{Path: file, Name: "h"})
	if err != nil {
		t.Fatal(err)
	}
	l.Append(audit.Entry{Server: "files", Tool: "read", Outcome: "ok"})
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, p, doctor.GroupState), want{"state.audit", file, doctor.OK, "3 entries in 1 file, whole", ""})
	expect(t, examine(t, p, doctor.GroupState), want{"state.logs", "", doctor.OK, "bytes of the audit log", ""})
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	for _, c := range p.Checks() {
		if c.ID == "state.audit" { // which has no time left
			expect(t, c.Run(late), want{"", "", doctor.Skipped, "too large to be read here within 10s; use metamcp audit verify", ""})
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(bytes.Replace(text, []byte("files"), []byte("filez"), 1)), 0o600)
	r := expect(t, examine(t, p, doctor.GroupState), want{"state.audit", file, doctor.Fail, "the chain is broken", "metamcp audit verify"})
	if len(r.Details) == 0 {
		t.Error("it does not say where")
	}
	p.Config.Settings.Audit.File = ""
	expect(t, examine(t, p, doctor.GroupState), want{"state.audit", "", doctor.Skipped, "off", ""})
}

func TestLogsThatAreLarge(t *testing.T) {
	p, state := withState(t, 0o700)
	file := write(t, filepath.Join(state, "logs", "a.log"), "", 0o600)
	if err := os.Truncate(file, 3<<30); err != nil { // without a block on the disk
		t.Fatal(err)
	}
	expect(t, examine(t, p, doctor.GroupState), want{"state.logs", "", doctor.Warn, "3.0 GiB of servers", "Delete"})
}
