package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

func newTestCache(t *testing.T) (*Cache, string) {
	t.Helper()
	dir := t.TempDir()
	return NewCache(dir, url.PathEscape), filepath.Join(dir, "cache")
}

func cachedToolset(t *testing.T, server string) *messages.Toolset {
	t.Helper()
	raw := "{ \"name\":\"a\",\n \"description\":\"<b>&\\u003c \xff\", \"inputSchema\":{\"type\":\"object\",\"maximum\":1.0e2} }"
	ts := toolset(t, server, raw, definition("b", "second", browserSchema))
	ts.Fetched = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ts.Era, ts.Version, ts.SpecHash = messages.EraLegacy, "2025-06-18", "hash-1"
	ts.Instructions, ts.ServerName, ts.ServerVersion, ts.Skipped = "Use <me>\nwell", "GitHub", "1.2", 3
	return ts
}

func TestCacheRoundTrip(t *testing.T) {
	c, _ := newTestCache(t)
	want := cachedToolset(t, "git/hub ü")
	if wrote, err := c.Save(want); err != nil || !wrote {
		t.Fatalf("Save: %v, %v", wrote, err)
	}
	got, err := c.Load("git/hub ü")
	if err != nil {
		t.Fatal(err)
	}
	want.Live = false
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for i := range want.Tools {
		if string(got.Tools[i].Raw) != string(want.Tools[i].Raw) {
			t.Errorf("definition changed: %q", got.Tools[i].Raw)
		}
	}
	empty := &messages.Toolset{Server: "none"}
	if _, err := c.Save(empty); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Load("none"); err != nil || len(got.Tools) != 0 {
		t.Errorf("an empty listing: %+v, %v", got, err)
	}
}

func TestCacheWritesOnlyWhatChanged(t *testing.T) {
	c, _ := newTestCache(t)
	save := func(change func(*messages.Toolset)) bool {
		ts := cachedToolset(t, "s")
		change(ts)
		wrote, err := c.Save(ts)
		if err != nil {
			t.Fatal(err)
		}
		return wrote
	}
	same := func(*messages.Toolset) {}
	later := func(by time.Duration) func(*messages.Toolset) {
		return func(ts *messages.Toolset) { ts.Fetched = ts.Fetched.Add(by); ts.Live = false }
	}
	if !save(same) || save(same) || save(later(relisted-1)) {
		t.Error("a little time alone must not cause a write, and the first listing must")
	}
	if !save(later(relisted)) || save(later(relisted)) {
		t.Error("a listing that is much newer must be written, once")
	}
	if kept, err := c.Load("s"); err != nil || !kept.Fetched.Equal(cachedToolset(t, "s").Fetched.Add(relisted)) {
		t.Errorf("%+v, %v", kept, err)
	}
	if !save(later(relisted-time.Minute)) || save(later(relisted-time.Minute)) {
		t.Error("a listing that is older than the file says, since the clock went back, must be written, once")
	}
	for name, change := range map[string]func(*messages.Toolset){
		"spec":        func(ts *messages.Toolset) { ts.SpecHash = "hash-2" },
		"era":         func(ts *messages.Toolset) { ts.Era = messages.EraModern },
		"fewer tools": func(ts *messages.Toolset) { ts.Tools = ts.Tools[:1] },
		"definition":  func(ts *messages.Toolset) { ts.Tools[0] = toolset(t, "s", definition("a", "other", "{}")).Tools[0] },
	} {
		if !save(change) {
			t.Errorf("a changed %s is not written", name)
		}
		if save(change) {
			t.Errorf("the same %s is written twice", name)
		}
	}
}

func TestCacheHealsAFileThatWasTamperedWith(t *testing.T) {
	c, root := newTestCache(t)
	if _, err := c.Save(cachedToolset(t, "s")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "s", cacheFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"end lost":       string(data[:len(data)-10]),
		"head broken":    "x" + string(data),
		"other server":   strings.Replace(string(data), `"server":"s"`, `"server":"t"`, 1),
		"other version":  strings.Replace(string(data), `"version":1`, `"version":2`, 1),
		"nothing at all": "",
	} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if wrote, err := c.Save(cachedToolset(t, "s")); err != nil || !wrote {
			t.Errorf("%s: not replaced (%v)", name, err)
		}
	}
}

func TestCacheSkipsWhatItCannotUse(t *testing.T) {
	defer testkit.NoLeaks(t)
	c, root := newTestCache(t)
	write := func(server, content string) {
		dir := filepath.Join(root, url.PathEscape(server))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, cacheFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Save(cachedToolset(t, "good")); err != nil {
		t.Fatal(err)
	}
	write("broken", `{"version":1,`)
	write("foreign", `{"version":1,"server":"another","tools":[]}`)
	write("future", `{"version":99,"server":"future","tools":[]}`)
	write("untyped", `{"version":1,"server":"untyped","era":5,"tools":[]}`)
	write("listless", `{"version":1,"server":"listless"}`)
	write("array", `[]`)
	large := filepath.Join(root, "large")
	if err := os.MkdirAll(large, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(large, cacheFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(maxCacheFile+1), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "folder", cacheFile), 0o700); err != nil {
		t.Fatal(err)
	}
	names := []string{"broken", "good", "missing", "foreign", "future", "untyped", "listless", "array", "large", "folder"}
	for _, parallel := range []int{0, 1, 4, 100} {
		sets, skipped := c.LoadAll(names, parallel)
		if len(sets) != 1 || sets[0].Server != "good" {
			t.Errorf("loaded %v", sets)
		}
		reasons := map[string]string{
			"broken": "not valid JSON", "foreign": `"another"`, "future": "version 99", "untyped": "not a schema cache file",
			"listless": "no member", "array": "not a schema cache file", "large": "too large", "folder": "no regular file",
		}
		for _, s := range skipped {
			if want := reasons[s.Server]; want == "" || !strings.Contains(s.Err.Error(), want) {
				t.Errorf("%s skipped with %v, want %q", s.Server, s.Err, want)
			}
			delete(reasons, s.Server)
		}
		if len(reasons) > 0 {
			t.Errorf("not reported: %v", reasons)
		}
	}
	if _, err := c.Load("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if sets, skipped := c.LoadAll(nil, 4); len(sets) != 0 || skipped != nil {
		t.Error("nothing is nothing")
	}
}

func TestCachePrune(t *testing.T) {
	c, root := newTestCache(t)
	if n, err := c.Prune(nil, nil); n != 0 || err != nil {
		t.Errorf("pruning nothing: %d, %v", n, err)
	}
	for i := range 8 {
		if _, err := c.Save(cachedToolset(t, fmt.Sprint("s", i))); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(root, "s2", "other.json")
	if err := errors.Join(
		os.WriteFile(other, nil, 0o600),
		os.WriteFile(filepath.Join(root, "s3", cacheFile), []byte("rubbish"), 0o600),
		os.Rename(filepath.Join(root, "s4"), filepath.Join(root, "moved")),
		os.WriteFile(filepath.Join(root, "stray"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-unusedFor - time.Hour)
	for _, folder := range []string{"s1", "s3", "s6"} {
		if err := os.Chtimes(filepath.Join(root, folder, cacheFile), long, long); err != nil {
			t.Fatal(err)
		}
	}
	n, err := c.Prune(map[string]bool{"s1": true}, map[string]bool{"s2": true, "s5": true})
	if n != 4 || err != nil {
		t.Errorf("pruned %d, %v; want s2 and s5 (gone), s3 (old rubbish) and s6 (old)", n, err)
	}
	left, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "moved s0 s1 s2 s7 stray" {
		t.Errorf("left: %s", got)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error("a file of somebody else's is gone")
	}
	for _, use := range []func() error{
		func() error { _, err := c.Prune(map[string]bool{"s1": true}, nil); return err },
		func() error { _, err := c.Load("s1"); return err },
	} {
		file := filepath.Join(root, "s1", cacheFile)
		if err := errors.Join(os.Chtimes(file, long, long), use()); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || time.Since(info.ModTime()) > usedEvery {
			t.Errorf("a file in use looks as if nobody had used it for long: %v, %v", info.ModTime(), err)
		}
	}
}

func TestCacheRefusesUnsafeFolders(t *testing.T) {
	for _, folder := range []string{"", ".", "..", "a/b", "/etc", "../x"} {
		c := NewCache(t.TempDir(), func(string) string { return folder })
		if _, err := c.Save(&messages.Toolset{Server: "s"}); err == nil {
			t.Errorf("saved in %q", folder)
		}
		if _, err := c.Load("s"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("loaded from %q: %v", folder, err)
		}
	}
}

func TestCacheRefusesBrokenDefinitions(t *testing.T) {
	c, _ := newTestCache(t)
	ts := &messages.Toolset{Server: "s", Tools: []*messages.Tool{{Definition: &messages.Definition{Name: "a", Raw: json.RawMessage(`{"name":`)}}}}
	if _, err := c.Save(ts); err == nil {
		t.Error("saved")
	}
}

func FuzzDecodeToolset(f *testing.F) {
	f.Add([]byte(`{"version":1,"server":"s","fetched":"2026-01-02T03:04:05Z",` + "\n" + `"specHash":"h","tools":[{"name":"a"}]}`))
	f.Add([]byte(`{"version":1`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ts, err := decodeToolset("s", data)
		if err != nil {
			return
		}
		again, err := encodeToolset(ts)
		if err != nil {
			return // a time that JSON cannot hold
		}
		if back, err := decodeToolset("s", again); err != nil || len(back.Tools) != len(ts.Tools) {
			t.Errorf("does not survive: %v", err)
		}
	})
}
