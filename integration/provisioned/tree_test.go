package provisioned

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(tb testing.TB, dir, name, text string) {
	tb.Helper()
	path := filepath.Join(dir, name)
	must(tb, os.MkdirAll(filepath.Dir(path), 0o700))
	must(tb, os.WriteFile(path, []byte(text), 0o600))
}

// installed is a server with files that were recorded.
func installed(tb testing.TB) (*Lock, *Locked, string) {
	tb.Helper()
	l := Open(tb.TempDir())
	s := server("x", "x-1")
	dir := l.Dir(&s)
	write(tb, dir, "package.json", "{}")
	write(tb, dir, "node_modules/a/index.js", "one")
	write(tb, dir, "node_modules/a/a name \"quoted\"", "two")
	write(tb, dir, "node_modules/b/.cache/x", "three")
	must(tb, os.Symlink("a", filepath.Join(dir, "node_modules", "c")))
	tree, err := Record(tb.Context(), dir)
	must(tb, err)
	if tree.Files != 4 || tree.Bytes != 8 {
		tb.Fatalf("recorded %+v", tree)
	}
	s.Tree = tree.Hash
	return l, &s, dir
}

func TestVerifyNamesWhatChanged(t *testing.T) {
	for _, c := range []struct {
		name, path, what string
		do               func(dir string) error
	}{
		{"nothing", "", "", func(string) error { return nil }},
		{"a file of the same size", "index.js", "was changed", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "node_modules/a/index.js"), []byte("eno"), 0o600)
		}},
		{"a file that is gone", "package.json", "is gone", func(dir string) error { return os.Remove(filepath.Join(dir, "package.json")) }},
		{"a file more", "evil.js", "was added", func(dir string) error { return os.WriteFile(filepath.Join(dir, "node_modules/evil.js"), nil, 0o600) }},
		{"a link elsewhere", "c", "was changed", func(dir string) error {
			link := filepath.Join(dir, "node_modules", "c")
			return errors.Join(os.Remove(link), os.Symlink("b", link))
		}},
		{"a file instead of a link", "c", "was changed", func(dir string) error {
			link := filepath.Join(dir, "node_modules", "c")
			return errors.Join(os.Remove(link), os.WriteFile(link, []byte("a"), 0o600))
		}},
		{"the list", listName, "was changed", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, listName), []byte("0 f \"package.json\"\n"), 0o600)
		}},
		{"no list", listName, "is gone", func(dir string) error { return os.Remove(filepath.Join(dir, listName)) }},
		{"no folder", "x-1", "is gone", os.RemoveAll},
		{"the cache of a running server", "", "", func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "node_modules/b/.cache/y"), nil, 0o600),
				os.MkdirAll(filepath.Join(dir, "a", "__pycache__"), 0o700), os.WriteFile(filepath.Join(dir, "a", "__pycache__", "z.pyc"), nil, 0o600))
		}},
		{"what a server remembers", "", "", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "node_modules/a/memory.jsonl"), []byte("{}"), 0o600)
		}},
		{"a program with the name of data", "run.log", "was added", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "node_modules/a/run.log"), nil, 0o700)
		}},
		{"a program", "index.js", "was changed", func(dir string) error { return os.Chmod(filepath.Join(dir, "node_modules/a/index.js"), 0o700) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, s, dir := installed(t)
			must(t, c.do(dir))
			err := l.Verify(t.Context(), s)
			if c.what == "" {
				must(t, err)
				return
			}
			var changed *ChangedError
			if !errors.As(err, &changed) || filepath.Base(changed.Path) != c.path || changed.What != c.what || changed.More != 0 ||
				!strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), `"x"`) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestVerifyCountsWhatElseChanged(t *testing.T) {
	l, s, dir := installed(t)
	must(t, os.RemoveAll(filepath.Join(dir, "node_modules", "a")))
	var changed *ChangedError
	if err := l.Verify(t.Context(), s); !errors.As(err, &changed) || changed.More != 1 {
		t.Errorf("it says %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Verify(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := l.Verify(t.Context(), &Locked{Name: "image"}); err != nil {
		t.Errorf("a server without files: %v", err)
	}
}

func TestClaims(t *testing.T) {
	l := Open(t.TempDir())
	c, err := l.Claim("work-1")
	must(t, err)
	if _, err := l.Claim("work-1"); err == nil {
		t.Error("a second process got the folder")
	}
	if _, err := l.Claim("../work"); err == nil {
		t.Error("a folder elsewhere was given")
	}
	write(t, c.Dir(), "x", "x")
	if _, err := os.Stat(c.Final()); err == nil {
		t.Error("it is in place before it was placed")
	}
	must(t, c.Place())
	if _, err := os.Stat(filepath.Join(c.Final(), "x")); err != nil || c.Dir() != c.Final() {
		t.Errorf("it is not in place: %v", err)
	}
	must(t, c.Discard())
	must(t, c.Release())
	if left, err := os.ReadDir(l.Servers()); err != nil || len(left) != 0 {
		t.Errorf("there is left %v, %v", left, err)
	}
}

func TestSweepTakesOnlyWhatNobodyNeeds(t *testing.T) {
	l := Open(t.TempDir())
	long := time.Now().Add(-2 * time.Hour)
	folder := func(name string, at time.Time) {
		dir := filepath.Join(l.Servers(), name)
		write(t, dir, "x", "x")
		must(t, os.Chmod(dir, 0o500)) // as packages have it
		must(t, os.Chtimes(dir, at, at))
	}
	folder("kept-1", long)
	folder("left-1", long)
	folder("later-1", time.Now().AddDate(1, 0, 0)) // by a clock that went back since
	folder("young-1", time.Now())
	folder(".new-broken-1", long)
	folder("a b", long) // none of ours
	owned, err := l.Claim("owned-1")
	must(t, err)
	must(t, os.Chtimes(owned.Dir(), long, long))
	stale := filepath.Join(l.Servers(), "dead-1.lock")
	must(t, os.WriteFile(stale, nil, 0o600))
	must(t, os.Chtimes(stale, long, long))
	keep(t, l, server("kept", "kept-1"))

	swept, err := l.Sweep(t.Context(), time.Hour)
	must(t, err)
	if fmt.Sprint(swept) != "[.new-broken-1 later-1 left-1]" {
		t.Errorf("swept %v", swept)
	}
	left, err := os.ReadDir(l.Servers())
	must(t, err)
	var have []string
	for _, e := range left {
		have = append(have, e.Name())
	}
	if got := strings.Join(have, " "); got != ".new-owned-1 a b kept-1 owned-1.lock young-1" {
		t.Errorf("there are %q", got)
	}
	must(t, owned.Discard())

	// A broken lock file might name any of them.
	folder("left-2", long)
	must(t, os.WriteFile(l.Path(), []byte("{"), 0o600))
	if swept, err := l.Sweep(t.Context(), time.Hour); err != nil || len(swept) != 0 {
		t.Errorf("swept %v, %v", swept, err)
	}
}

// BenchmarkVerify looks at as many files as a server with its dependencies has
// (server-everything: 3,600 files, 17 MB).
func BenchmarkVerify(b *testing.B) {
	l := Open(b.TempDir())
	s := server("x", "x-1")
	dir := l.Dir(&s)
	text := strings.Repeat("x", 4600)
	for i := range 3600 {
		write(b, dir, fmt.Sprintf("node_modules/p%d/f%d.js", i%100, i), text)
	}
	tree, err := Record(b.Context(), dir)
	must(b, err)
	s.Tree = tree.Hash
	for b.Loop() {
		must(b, l.Verify(b.Context(), &s))
	}
}
