package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/metamcp/metamcp/integration/provisioned"
)

// lockedServer is a server as an installation leaves it.
func lockedServer(name string) provisioned.Locked {
	return provisioned.Locked{
		Name: name, Description: "what it does", Folder: name + "-1", Tree: "sha256-0", AllowedBy: provisioned.APerson,
		Entry:  provisioned.Entry{Command: "node", Args: []string{"a $${b}", "${HOME_X}"}, Env: map[string]string{"KEY": "${KEY}"}},
		Source: provisioned.Source{Kind: "npm", Package: "@x/" + name, Version: "1.0.0"},
	}
}

// lock keeps servers in the world's lock file.
func (w *world) lock(names ...string) *provisioned.Lock {
	w.t.Helper()
	l := provisioned.Open(filepath.Join(w.home, ".metamcp"))
	for _, name := range names {
		_, _, err := l.Keep(w.t.Context(), lockedServer(name), nil)
		must(w.t, err)
	}
	return l
}

func serverNames(cfg *Config) []string {
	out := make([]string, len(cfg.Servers))
	for i, s := range cfg.Servers {
		out[i] = s.Name
	}
	return out
}

func TestProvisionedServers(t *testing.T) {
	w := newWorld(t, "KEY=secret", "HOME_X=home")
	l := w.lock("mine", "weather")
	cfg := w.load(`{"mcpServers": {"first": {"command": "x"}, "mine": {"command": "own"}}}`)
	if got := serverNames(cfg); !slices.Equal(got, []string{"first", "mine", "weather"}) {
		t.Fatalf("there are %v", got)
	}
	s := cfg.Server("weather")
	p := s.Provisioned
	if s.Err != nil || p == nil || p.Package != "npm:@x/weather@1.0.0" || p.Dir != filepath.Join(l.Servers(), "weather-1") || p.Tree != "sha256-0" {
		t.Errorf("it is %+v, %+v", s, p)
	}
	if s.Description != "what it does" || !slices.Equal(s.Args, []string{"a ${b}", "home"}) || !slices.Contains(s.Env, "KEY=secret") || s.Filled["KEY"] != "secret" {
		t.Errorf("it is %+v", s)
	}
	if !strings.HasPrefix(s.Source, l.Path()+":") || s.Timeout != defaultTimeout || s.Hash == "" {
		t.Errorf("it is %+v", s)
	}
	// The configured one wins, and a note says so.
	if mine := cfg.Server("mine"); mine.Command != "own" || mine.Provisioned != nil {
		t.Errorf("mine is %+v", mine)
	}
	if len(cfg.Problems) != 0 || len(cfg.Warnings) != 1 || cfg.Warnings[0].Server != "mine" || cfg.Warnings[0].File != l.Path() || cfg.Warnings[0].Line == 0 {
		t.Errorf("problems %v, warnings %v", cfg.Problems, cfg.Warnings)
	}
	if slices.Contains(cfg.Files, l.Path()) {
		t.Errorf("the files are %v", cfg.Files)
	}
}

// What one server of the lock file costs does not grow with the number of others.
func TestEachProvisionedServerIsReadOnce(t *testing.T) {
	w := newWorld(t, "KEY=secret", "HOME_X=home")
	l := w.lock("s0000")
	text, err := os.ReadFile(l.Path())
	must(t, err)
	before, rest, _ := strings.Cut(string(text), `"s0000": `)
	end := strings.LastIndex(rest[:strings.LastIndexByte(rest, '}')], "}")
	one, after := rest[:end], rest[end:]
	allocations := func(servers int) float64 {
		entries := make([]string, servers)
		for i := range entries {
			entries[i] = fmt.Sprintf(`"s%04d": %s`, i, strings.ReplaceAll(one, "s0000", fmt.Sprintf("s%04d", i)))
		}
		must(t, os.WriteFile(l.Path(), []byte(before+strings.Join(entries, ",")+after), 0o600))
		if cfg := w.load(`{}`); len(cfg.Servers) != servers || len(cfg.Problems) > 0 {
			t.Fatalf("there are %d servers, problems %v", len(cfg.Servers), cfg.Problems)
		}
		return testing.AllocsPerRun(1, func() { w.load(`{}`) })
	}
	const few, many = 20, 400
	if a, b := allocations(few)/few, allocations(many)/many; b > 1.5*a {
		t.Errorf("of %d servers one takes %.0f allocations, of %d it takes %.0f", few, a, many, b)
	}
}

// A provisioned server whose variable is not set refuses, by name.
func TestProvisionedServerThatLacksAVariable(t *testing.T) {
	w := newWorld(t, "HOME_X=home")
	w.lock("weather")
	cfg := w.load(`{"mcpServers": {}}`)
	s := cfg.Server("weather")
	if s.Err == nil || !strings.Contains(s.Err.Message, "KEY") || s.Provisioned == nil || len(cfg.Problems) != 1 {
		t.Errorf("it is %+v; problems %v", s, cfg.Problems)
	}
}

func TestWithoutAFileThereAreTheProvisionedServers(t *testing.T) {
	w := newWorld(t, "KEY=1", "HOME_X=1")
	w.lock("weather")
	cfg, err := Load(w.sources())
	must(t, err)
	if cfg.Server("weather") == nil || len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0].Message, "only servers that metamcp installed") {
		t.Errorf("%v, warnings %v", serverNames(cfg), cfg.Warnings)
	}
}

func TestABrokenLockFileStartsNothing(t *testing.T) {
	w := newWorld(t, "KEY=1", "HOME_X=1")
	l := w.lock("weather")
	good, err := os.ReadFile(l.Path())
	must(t, err)
	bad := good[:len(good)-4]
	must(t, os.WriteFile(l.Path(), bad, 0o600))
	cfg := w.load(`{"mcpServers": {"first": {"command": "x"}}}`)
	if got := serverNames(cfg); !slices.Equal(got, []string{"first"}) {
		t.Errorf("there are %v", got)
	}
	if len(cfg.Problems) != 1 || cfg.Problems[0].File != l.Path() || !strings.Contains(cfg.Problems[0].Message, "left as it is") {
		t.Errorf("problems %v", cfg.Problems)
	}
	if now, err := os.ReadFile(l.Path()); err != nil || !bytes.Equal(now, bad) {
		t.Errorf("it was changed: %v", err)
	}
}

// TestReloadWithABrokenLockFile: servers that run are not ended for it; where none
// do, the rest of the configuration counts, as at the start.
func TestReloadWithABrokenLockFile(t *testing.T) {
	w := newWorld(t, "KEY=1", "HOME_X=1")
	l := w.lock("weather")
	cfg := w.load(oneServer("first"))
	src := w.sources(w.file("test.json", oneServer("second")))
	must(t, os.Rename(l.Path(), l.Path()+".good"))
	must(t, os.Mkdir(l.Path(), 0o700))
	if again, err := Reload(src, cfg); err == nil {
		t.Errorf("it became %v", serverNames(again))
	} else {
		contains(t, err.Error(), l.Path(), "it is no regular file")
	}
	none, err := Load(src)
	must(t, err)
	if again, err := Reload(src, none); err != nil || again.Server("second") == nil || len(again.Problems) != 1 {
		t.Errorf("without servers in force: %v", err)
	}
	must(t, os.Remove(l.Path()))
	must(t, os.Rename(l.Path()+".good", l.Path()))
	if again, err := Reload(src, cfg); err != nil || again.Server("weather") == nil || again.Server("second") == nil {
		t.Errorf("mended: %v", err)
	}
}

func TestWatchSeesTheLockFile(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			w := newWorld(t, "KEY=1", "HOME_X=1")
			l := w.lock() // the folder is there
			must(t, os.MkdirAll(filepath.Dir(l.Path()), 0o700))
			src := w.sources(w.file("c.json", oneServer("a")))
			cfg, err := Load(src)
			must(t, err)
			n := startWatching(t, src, cfg, mode.poll, mode.notify)

			w.lock("weather")
			if got := n.server("weather"); got.Server("a") == nil {
				t.Error("the configured server is gone")
			}
			w.file("c.json", oneServer("b"))
			if got := n.server("b"); got.Server("weather") == nil {
				t.Error("the provisioned server is gone")
			}
			_, err = l.Remove(t.Context(), "weather")
			must(t, err)
			n.until("no weather", func(c change) bool { return c.cfg != nil && c.cfg.Server("weather") == nil })

			// The state folder needs a restart, and so does its file.
			other := t.TempDir()
			_, _, err = provisioned.Open(other).Keep(t.Context(), lockedServer("elsewhere"), nil)
			must(t, err)
			w.file("c.json", `{"mcpServers": {}, "metamcp": {"stateDir": `+strconv.Quote(other)+`}}`)
			n.until("no b", func(c change) bool { return c.cfg != nil && c.cfg.Server("b") == nil })
			w.lock("later")
			if got := n.server("later"); got.Server("elsewhere") != nil {
				t.Error("the lock file of another state folder was read")
			}
		})
	}
}

// Go's own reader of JSON takes keys in capitals, ours does not: the server is one that
// refuses, and says why.
func TestAnEntryInCapitals(t *testing.T) {
	w := newWorld(t, "KEY=1", "HOME_X=1")
	l := w.lock("weather")
	good, err := os.ReadFile(l.Path())
	must(t, err)
	must(t, os.WriteFile(l.Path(), bytes.Replace(good, []byte(`"entry"`), []byte(`"ENTRY"`), 1), 0o600))
	cfg := w.load(`{"mcpServers": {}}`)
	s := cfg.Server("weather")
	if s == nil || s.Err == nil || !strings.Contains(s.Err.Message, l.Path()+":4:") || !strings.Contains(s.Err.Hint, "provision it again") || s.Provisioned == nil {
		t.Errorf("it is %+v", s)
	}
	if len(cfg.Problems) != 1 || cfg.Problems[0].Server != "weather" {
		t.Errorf("problems %v", cfg.Problems)
	}
}

// TestAChangeOfTheLockFileIsSeenInTime, with the intervals of a real host.
func TestAChangeOfTheLockFileIsSeenInTime(t *testing.T) {
	w := newWorld(t, "KEY=1", "HOME_X=1")
	src := w.sources(w.file("c.json", oneServer("a")))
	cfg, err := Load(src)
	must(t, err)
	n := startWatching(t, src, cfg, pollInterval, fsnotify.NewWatcher)
	began := time.Now()
	w.lock("weather")
	n.server("weather")
	t.Logf("after %v", time.Since(began))
}
