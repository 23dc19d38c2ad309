package limits

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fakeGroups is a folder that looks like that of control groups, and one like /proc.
func fakeGroups(t *testing.T) (Memory, string) {
	t.Helper()
	dir := t.TempDir()
	m := Memory{Groups: filepath.Join(dir, "cgroup"), Proc: filepath.Join(dir, "proc"), Percent: 90}
	write(t, filepath.Join(m.Proc, "self", "cgroup"), "0::/user/host\n")
	own := filepath.Join(m.Groups, "user", "host")
	write(t, filepath.Join(own, "memory.max"), "max\n")
	write(t, filepath.Join(own, "memory.current"), "99999999999\n")
	return m, own
}

func TestMemoryOfAFakeGroup(t *testing.T) {
	m, own := fakeGroups(t)
	if why := m.Short(); why != "" {
		t.Errorf("short without a limit: %s", why)
	}
	outer := filepath.Dir(own)
	write(t, filepath.Join(outer, "memory.max"), "104857600\n")
	write(t, filepath.Join(outer, "memory.current"), "99614720\n") // 95 of 100 MB
	if why := m.Short(); !strings.Contains(why, "95 of 100 MB") {
		t.Errorf("the limit of the outer group: %q", why)
	}
	write(t, filepath.Join(outer, "memory.stat"), "anon 5\ninactive_file 20971520\n")
	if why := m.Short(); why != "" {
		t.Errorf("files that can be dropped count: %s", why)
	}
	m.Percent = 75
	if m.Short() == "" {
		t.Error("75 of 100 MB are not short of 75 %")
	}
}

func TestPressureOfAFakeGroup(t *testing.T) {
	m, own := fakeGroups(t)
	system := filepath.Join(m.Proc, "pressure", "memory")
	write(t, system, "some avg10=35.20 avg60=1.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	if why := m.Short(); !strings.Contains(why, "35 %") {
		t.Errorf("the system's: %q", why)
	}
	write(t, filepath.Join(own, "memory.pressure"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	if why := m.Short(); why != "" {
		t.Errorf("the group's own does not count: %q", why)
	}
}

func TestWatchOfAFakeGroup(t *testing.T) {
	m, own := fakeGroups(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	write(t, filepath.Join(own, "memory.max"), "100\n")
	told := 0
	m.watch(ctx, time.Millisecond, func(string) {
		if told++; told == 3 {
			cancel()
		}
	})
	if told != 3 {
		t.Errorf("told %d times", told)
	}
}

func TestKills(t *testing.T) {
	dir := t.TempDir()
	if _, ok := kills(dir); ok {
		t.Error("a number out of nothing")
	}
	write(t, filepath.Join(dir, "vmstat"), "nr_free_pages 7\noom_kill 12\ndrop_pagecache 0\n")
	if n, ok := kills(dir); !ok || n != 12 {
		t.Errorf("%d, %v", n, ok)
	}
}

func TestGroupsOfAFakeMount(t *testing.T) {
	m, own := fakeGroups(t)
	g := &Groups{mount: m.Groups, proc: m.Proc, delegated: func(string) bool { return false }}
	if group, err := g.Open("one", messages.Limits{CPUSeconds: 5}); group != nil || err != nil {
		t.Errorf("a group for what it does not bound: %v, %v", group, err)
	}
	if group, err := g.Open("one", messages.Limits{MemoryMB: 5}); group != nil || err != nil {
		t.Errorf("memory is bounded in another way: %v, %v", group, err)
	}
	if _, err := g.Open("one", messages.Limits{Processes: 5}); !errors.Is(err, errNotDelegated) {
		t.Errorf("a limit that nobody keeps: %v", err)
	}

	g = &Groups{mount: m.Groups, proc: m.Proc, delegated: func(dir string) bool { return dir == own }}
	write(t, filepath.Join(own, "cgroup.procs"), "")
	write(t, filepath.Join(own, "cgroup.subtree_control"), "")
	_, err := g.Open("one", messages.Limits{Processes: 5})
	if err == nil || !strings.Contains(err.Error(), "pids.max") { // which the kernel makes
		t.Errorf("a group without what bounds it: %v", err)
	}
	if _, err := os.Stat(filepath.Join(own, "one")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(own, "cgroup.subtree_control")); string(text) != "+memory +pids" {
		t.Errorf("the kernel was asked for %q: %v", text, err)
	}

	write(t, filepath.Join(m.Proc, "self", "cgroup"), "0::/user/host/"+hostLeaf+"\n")
	if got := ownGroup(m.Proc); got != "/user/host" {
		t.Errorf("a host that was started by another is in %q", got)
	}
	var none *Group
	none.Kill()
	if none.Alive() || none.OutOfMemory() || none.Refused() != 0 || none.Close() != nil {
		t.Error("no group does something")
	}
}
