package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/registry/fakeregistry"
)

// enough bounds what a test waits for, on a machine that is busy.
const enough = time.Minute

// clock is a time that a test sets.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time           { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(by time.Duration) { c.at.Add(int64(by)) }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func open(t *testing.T, opts registry.Options) *registry.Client {
	t.Helper()
	if opts.Timeout == 0 {
		opts.Timeout = enough
	}
	if opts.Total == 0 {
		opts.Total = 2 * enough
	}
	opts.Backoff = time.Millisecond
	c, err := registry.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func list(t *testing.T, c *registry.Client, q registry.Query) *registry.Answer {
	t.Helper()
	a, err := c.List(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func names(a *registry.Answer) []string {
	var out []string
	for _, s := range a.Servers {
		out = append(out, s.Name)
	}
	return out
}

func many(n int) []fakeregistry.Entry {
	var out []fakeregistry.Entry
	for i := range n {
		out = append(out, fakeregistry.Server(fmt.Sprintf("io.github.many/s%04d", i), "1.0.0", "One of many", fmt.Sprintf("@many/s%04d", i)))
	}
	return out
}

func TestListFollowsPages(t *testing.T) {
	fake := fakeregistry.Start(t, many(250)...)
	c := open(t, registry.Options{BaseURL: fake.URL})
	a := list(t, c, registry.Query{Limit: 1000})
	if len(a.Servers) != 250 || !a.Complete || a.Source != registry.FromRegistry || a.Age != 0 || len(a.Notes) != 0 {
		t.Fatalf("%d servers, %+v", len(a.Servers), *a)
	}
	if got := len(fake.Requests()); got != 3 {
		t.Errorf("%d requests, want 3: %q", got, fake.Requests())
	}
	if first := fake.Requests()[0]; first != "GET /v0.1/servers?limit=100&version=latest" {
		t.Errorf("first request %q", first)
	}

	some := list(t, c, registry.Query{Limit: 120})
	if len(some.Servers) != 120 || some.Complete || !strings.Contains(strings.Join(some.Notes, "\n"), "there are more") {
		t.Errorf("%d servers, complete %t, notes %q", len(some.Servers), some.Complete, some.Notes)
	}
}

func TestSearchAndStates(t *testing.T) {
	old := fakeregistry.Server("io.github.a/weather", "1.0.0", "Weather", "@a/weather")
	old.Latest = false
	young := fakeregistry.Server("io.github.a/weather", "2.0.0", "Weather", "@a/weather")
	young.UpdatedAt = young.UpdatedAt.AddDate(0, 1, 0)
	rusty := fakeregistry.Server("io.github.b/weather-old", "1.0.0", "Weather", "@b/weather")
	rusty.Status, rusty.StatusMessage = "deprecated", "use \u202eio.github.a/weather"
	gone := fakeregistry.Server("io.github.c/weather-gone", "1.0.0", "Weather", "@c/weather")
	gone.Status = "deleted"
	fake := fakeregistry.Start(t, old, young, rusty, gone, fakeregistry.Server("io.github.d/mail", "1.0.0", "Mail", "@d/mail"))
	c := open(t, registry.Options{BaseURL: fake.URL})

	a := list(t, c, registry.Query{Search: "weather"})
	if got := names(a); !slices.Equal(got, []string{"io.github.a/weather", "io.github.b/weather-old"}) {
		t.Fatalf("found %q", got)
	}
	if s := a.Servers[0]; s.Version != "2.0.0" || s.Status != registry.Active || !s.Latest || s.Packages[0].Identifier != "@a/weather" || s.Packages[0].Kind != registry.NPM {
		t.Errorf("the first one is %+v", s)
	}
	if s := a.Servers[1]; s.Status != registry.Deprecated || s.StatusMessage != "use io.github.a/weather" {
		t.Errorf("the deprecated one is %+v", s)
	}
	if got := names(list(t, c, registry.Query{Search: "weather", AllVersions: true, IncludeDeleted: true})); len(got) != 4 {
		t.Errorf("all versions, deleted ones too: %q", got)
	}
	since := list(t, c, registry.Query{UpdatedSince: young.UpdatedAt})
	if got := names(since); !slices.Equal(got, []string{"io.github.a/weather"}) {
		t.Errorf("updated since: %q", got)
	}
	if last := fake.Requests()[len(fake.Requests())-1]; !strings.Contains(last, "updated_since=2026-11-01T00%3A00%3A00Z") {
		t.Errorf("asked %q", last)
	}
}

func TestVersion(t *testing.T) {
	gone := fakeregistry.Server("io.github.a/gone", "1.0.0", "Gone", "@a/gone")
	gone.Status = "deleted"
	old := fakeregistry.Server("io.github.a/weather", "1.0.0", "Weather", "@a/weather")
	old.Latest = false
	fake := fakeregistry.Start(t, old, fakeregistry.Server("io.github.a/weather", "1.1.0+build.5", "Weather", "@a/weather"), gone)
	c := open(t, registry.Options{BaseURL: fake.URL + "/v0.1/"})
	for _, tt := range []struct {
		name, version, want string
		reason              registry.Reason
	}{
		{"io.github.a/weather", "", "1.1.0+build.5", ""},
		{"io.github.a/weather", "latest", "1.1.0+build.5", ""},
		{"io.github.a/weather", "1.0.0", "1.0.0", ""},
		{"io.github.a/weather", "1.1.0+build.5", "1.1.0+build.5", ""},
		{"io.github.a/gone", "1.0.0", "1.0.0", ""},
		{"io.github.a/weather", "9.9.9", "", registry.NotFound},
		{"io.github.a/weather", "^1.0.0", "", registry.Invalid},
		{"io.github.a/weather", "../../x", "", registry.Invalid},
		{"io.github.a/../../x", "1.0.0", "", registry.Invalid},
		{"weather", "", "", registry.Invalid},
	} {
		s, note, err := c.Version(t.Context(), tt.name, tt.version)
		var e *registry.Error
		switch {
		case tt.reason == "" && (err != nil || s.Version != tt.want || note != ""):
			t.Errorf("%s %s: %+v, %q, %v", tt.name, tt.version, s, note, err)
		case tt.reason != "" && (!errors.As(err, &e) || e.Reason != tt.reason):
			t.Errorf("%s %s: %v, want reason %q", tt.name, tt.version, err, tt.reason)
		}
	}
	a, err := c.Versions(t.Context(), "io.github.a/weather")
	if err != nil || len(a.Servers) != 2 || !a.Complete {
		t.Errorf("versions: %+v, %v", a, err)
	}

	fake.Instead(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"server":{"name":"io.github.evil/weather","description":"x","version":"1.0.0"}}`)
	})
	if _, _, err := c.Version(t.Context(), "io.github.a/weather", "1.0.0"); err == nil || !strings.Contains(err.Error(), "answered with io.github.evil/weather") {
		t.Errorf("another server was taken: %v", err)
	}
	a, err = c.Versions(t.Context(), "io.github.a/weather")
	if err == nil {
		t.Errorf("versions without a list: %+v", a)
	}
}

func TestCacheIsUsedAndRevalidated(t *testing.T) {
	fake := fakeregistry.Start(t, fakeregistry.Server("io.github.a/weather", "1.0.0", "Weather", "@a/weather"))
	time0 := newClock()
	file := filepath.Join(t.TempDir(), "state", "registry-cache.json")
	opts := registry.Options{BaseURL: fake.URL, CacheFile: file, Now: time0.now}
	list(t, open(t, opts), registry.Query{Search: "weather"})

	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if perm := info.Mode().Perm(); runtime.GOOS != "windows" && perm != 0o600 {
		t.Errorf("the cache has permissions %v", perm)
	}

	// Another host, an hour later.
	time0.advance(time.Hour)
	c := open(t, opts)
	a := list(t, c, registry.Query{Search: "weather"})
	if a.Source != registry.FromCache || a.Age != time.Hour || len(a.Servers) != 1 || !a.Servers[0].Latest || len(fake.Requests()) != 1 {
		t.Fatalf("young cache: %+v after %q", *a, fake.Requests())
	}
	if a = list(t, c, registry.Query{Search: "weather", Refresh: true}); a.Source != registry.FromRegistry {
		t.Errorf("refreshed: %+v", *a)
	}

	// A day later it asks whether it changed.
	time0.advance(25 * time.Hour)
	a = list(t, c, registry.Query{Search: "weather"})
	requests := fake.Requests()
	if a.Source != registry.FromRegistry || a.Age != 0 || len(a.Servers) != 1 || !strings.HasSuffix(requests[len(requests)-1], " if-none-match") {
		t.Fatalf("old cache: %+v after %q", *a, requests)
	}
	if a = list(t, c, registry.Query{Search: "weather"}); a.Source != registry.FromCache || len(fake.Requests()) != len(requests) {
		t.Errorf("an answer of 304 does not make the cache young: %+v", *a)
	}

	// It did.
	fake.Set(fakeregistry.Server("io.github.a/weather", "1.1.0", "Weather", "@a/weather"))
	time0.advance(25 * time.Hour)
	if a = list(t, c, registry.Query{Search: "weather"}); len(a.Servers) != 1 || a.Servers[0].Version != "1.1.0" {
		t.Errorf("changed: %+v", *a)
	}

	// A clock that was set back is no reason to believe the cache for years.
	time0.advance(-1000 * time.Hour)
	before := len(fake.Requests())
	list(t, c, registry.Query{Search: "weather"})
	if len(fake.Requests()) == before {
		t.Error("an answer from the future was taken for a young one")
	}
}

// What was kept before the clock went back, however much of it, gives way to what the
// registry says now, in the file too.
func TestPagesFromTheFuture(t *testing.T) {
	fake := fakeregistry.Start(t, fakeregistry.Server("io.github.a/weather", "1.0.0", "Weather", "@a/weather"))
	time0 := newClock()
	file := filepath.Join(t.TempDir(), "registry-cache.json")
	opts := registry.Options{BaseURL: fake.URL, CacheFile: file, Now: time0.now}
	list(t, open(t, opts), registry.Query{Search: "weather"})
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var kept struct {
		Version int                        `json:"version"`
		Pages   map[string]json.RawMessage `json:"pages"`
	}
	if err := json.Unmarshal(text, &kept); err != nil || len(kept.Pages) != 1 {
		t.Fatalf("%d pages, %v", len(kept.Pages), err)
	}
	for _, one := range kept.Pages {
		for i := range 256 { // as many as are kept
			kept.Pages[fmt.Sprintf("%s/v0.1/servers?search=%d", fake.URL, i)] = one
		}
		break
	}
	if text, err = json.Marshal(kept); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	time0.advance(-365 * 24 * time.Hour)

	fake.Set(fakeregistry.Server("io.github.a/weather", "1.1.0", "Weather", "@a/weather"))
	for _, search := range []string{"weather", "io.github.a"} { // which was kept, and which was not
		for i, want := range []registry.Source{registry.FromRegistry, registry.FromCache} {
			a := list(t, open(t, opts), registry.Query{Search: search})
			if a.Source != want || len(a.Servers) != 1 || a.Servers[0].Version != "1.1.0" {
				t.Errorf("%s, host %d: from %s: %+v", search, i+1, a.Source, a.Servers)
			}
		}
	}
}

func TestOffline(t *testing.T) {
	fake := fakeregistry.Start(t,
		fakeregistry.Server("io.github.a/weather", "1.0.0", "Weather reports", "@a/weather"),
		fakeregistry.Server("io.github.a/mail", "1.0.0", "Mail", "@a/mail"))
	time0 := newClock()
	file := filepath.Join(t.TempDir(), "registry-cache.json")
	opts := registry.Options{BaseURL: fake.URL, CacheFile: file, Now: time0.now}
	list(t, open(t, opts), registry.Query{})
	fake.Close()
	time0.advance(90 * 24 * time.Hour)

	c := open(t, opts)
	for _, tt := range []struct {
		name   string
		q      registry.Query
		want   []string
		source registry.Source
		note   string
	}{
		{"the same question", registry.Query{}, []string{"io.github.a/weather", "io.github.a/mail"}, registry.FromCache, "this is what it said 90 days ago"},
		{"another question", registry.Query{Search: "weather reports"}, []string{"io.github.a/weather"}, registry.FromCache, "told of before that fit, up to 90 days ago"},
		{"not in the cache", registry.Query{Search: "postgres"}, []string{"@modelcontextprotocol/server-postgres"}, registry.FromBuiltin, "nothing that fits was kept"},
		{"not even built in", registry.Query{Search: "submarine"}, nil, registry.FromBuiltin, "the built-in list of 20 servers was searched instead"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := list(t, c, tt.q)
			if got := names(a); !slices.Equal(got, tt.want) || a.Source != tt.source {
				t.Errorf("%q from %s", got, a.Source)
			}
			if notes := strings.Join(a.Notes, "\n"); !strings.Contains(notes, tt.note) || !strings.Contains(notes, "cannot be reached") {
				t.Errorf("notes %q, want %q in them", notes, tt.note)
			}
			if a.Cause == nil || a.Cause.Reason != registry.Unreachable {
				t.Errorf("cause %v", a.Cause)
			}
		})
	}

	s, note, err := c.Version(t.Context(), "io.github.a/weather", "1.0.0")
	if err != nil || s.Version != "1.0.0" || !strings.Contains(note, "90 days") {
		t.Errorf("version: %+v, %q, %v", s, note, err)
	}
	if _, _, err = c.Version(t.Context(), "io.github.a/weather", "3.0.0"); err == nil {
		t.Error("a version that nobody knows was found")
	}

	empty := open(t, registry.Options{BaseURL: fake.URL})
	if a := list(t, empty, registry.Query{}); len(a.Servers) != 20 || !strings.Contains(strings.Join(a.Notes, ""), "nothing was kept from before") {
		t.Errorf("without a cache: %d servers, %q", len(a.Servers), a.Notes)
	}
}

func TestCacheFilesThatAreBroken(t *testing.T) {
	fake := fakeregistry.Start(t, fakeregistry.Server("io.github.a/weather", "1.0.0", "Weather", "@a/weather"))
	for name, content := range map[string]string{
		"not JSON": "<html>", "cut": `{"version":1,"pages":{"x":{"fet`, "another shape": `[1,2]`, "another version": `{"version":99,"pages":{}}`, "empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "registry-cache.json")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			c := open(t, registry.Options{BaseURL: fake.URL, CacheFile: file})
			if a := list(t, c, registry.Query{}); len(a.Servers) != 1 {
				t.Errorf("%d servers, %q", len(a.Servers), a.Notes)
			} else if told := strings.Contains(strings.Join(a.Notes, ""), "starts anew"); told != (name != "another version") {
				t.Errorf("notes %q", a.Notes)
			}
			// It was replaced.
			if a := list(t, open(t, registry.Options{BaseURL: "http://127.0.0.1:1", CacheFile: file}), registry.Query{}); a.Source != registry.FromBuiltin {
				t.Errorf("another registry's cache was used: %+v", a)
			}
			if a := list(t, open(t, registry.Options{BaseURL: fake.URL, CacheFile: file}), registry.Query{}); a.Source != registry.FromCache || len(a.Notes) != 0 {
				t.Errorf("%s, %q", a.Source, a.Notes)
			}
		})
	}
	t.Run("cannot be written", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c := open(t, registry.Options{BaseURL: fake.URL, CacheFile: filepath.Join(dir, "file", "registry-cache.json")})
		a := list(t, c, registry.Query{})
		if len(a.Servers) != 1 || !strings.Contains(strings.Join(a.Notes, "\n"), "cannot be written") {
			t.Errorf("%d servers, %q", len(a.Servers), a.Notes)
		}
	})
}

func TestTwoHostsShareACache(t *testing.T) {
	fake := fakeregistry.Start(t, fakeregistry.Server("io.github.a/weather", "1.0.0", "Weather", "@a/weather"))
	opts := registry.Options{BaseURL: fake.URL, CacheFile: filepath.Join(t.TempDir(), "registry-cache.json")}
	one, two := open(t, opts), open(t, opts)
	list(t, one, registry.Query{Search: "we"})
	list(t, two, registry.Query{Search: "ather"})
	list(t, one, registry.Query{Search: "eat"})
	before := len(fake.Requests())
	three := open(t, opts)
	for _, search := range []string{"we", "ather", "eat"} {
		if a := list(t, three, registry.Query{Search: search}); a.Source != registry.FromCache {
			t.Errorf("%q is from %s", search, a.Source)
		}
	}
	if len(fake.Requests()) != before {
		t.Errorf("requests %q", fake.Requests()[before:])
	}
}

func TestQuestionsThatAreNone(t *testing.T) {
	fake := fakeregistry.Start(t)
	c := open(t, registry.Options{BaseURL: fake.URL})
	for _, search := range []string{strings.Repeat("x", 300), "we\u200bather", "a\x00b"} {
		_, err := c.List(t.Context(), registry.Query{Search: search})
		var e *registry.Error
		if !errors.As(err, &e) || e.Reason != registry.Invalid {
			t.Errorf("%q: %v", search, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.List(ended, registry.Query{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if len(fake.Requests()) != 0 {
		t.Errorf("asked %q", fake.Requests())
	}
	for _, base := range []string{"ftp://x", "registry", "http://", "https://x/?q=1", "://"} {
		if _, err := registry.New(registry.Options{BaseURL: base}); err == nil {
			t.Errorf("%q was taken", base)
		}
	}
}
