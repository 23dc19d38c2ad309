package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	zalando "github.com/zalando/go-keyring"

	"github.com/metamcp/metamcp/integration/secrets"
)

// ring is a keyring that is there while its bus is.
type ring struct {
	t   *testing.T
	bus string
}

func newRing(t *testing.T) *ring {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("XDG_RUNTIME_DIR", dir)
	zalando.MockInit()
	return &ring{t, filepath.Join(dir, "bus")}
}

func (r *ring) there(is bool) {
	r.t.Helper()
	if is {
		must(r.t, os.WriteFile(r.bus, nil, 0o600))
	} else {
		must(r.t, os.Remove(r.bus))
	}
}

// TestWatchAsksTheKeyringAgain: no file tells that a keyring can be used by now. While
// it cannot, what is in force stays and nothing is told twice.
func TestWatchAsksTheKeyringAgain(t *testing.T) {
	r := newRing(t)
	w := newWorld(t)
	s := secrets.New(filepath.Join(w.home, ".metamcp"))
	r.there(true)
	for _, name := range []string{"A", "B"} {
		if place, err := s.Set(t.Context(), name, "hush-"+name, false); err != nil || place != secrets.InKeyring {
			t.Fatal(place, err)
		}
	}
	path := w.file("c.json", `{"mcpServers": {"a": {"command": "${secret:A}"}}}`)
	src := w.sources(path)
	cfg, err := Load(src)
	must(t, err)
	clean(t, cfg)
	r.there(false)
	again, err := Reload(src, cfg)
	must(t, err)
	if steps := serversOf(cfg, again); len(steps) != 0 || len(again.Warnings) != 1 || again.Secrets()["A"] != "hush-A" {
		t.Errorf("steps %+v, warnings %v", steps, again.Warnings)
	}

	var told []*Config
	watcher := newWatcher(src, again, func(c *Config, err error) {
		must(t, err)
		told = append(told, c)
	}, time.Hour)
	long := time.Now().Add(-time.Hour)
	due := func() {
		t.Helper()
		for _, file := range []string{path, s.Path()} { // nothing else is a reason to read
			must(t, os.Chtimes(file, long, long))
		}
		watcher.check(true)
		if watcher.ringAt.IsZero() {
			t.Fatal("it is not asked again")
		}
		watcher.ringAt = time.Now()
		watcher.check(false)
	}
	w.file("c.json", `{"mcpServers": {"a": {"command": "${secret:A}"}, "b": {"command": "${secret:B}"}}}`)
	watcher.check(true)
	if len(told) != 1 || told[0].Server("a").Err != nil || told[0].Server("b").Err == nil {
		t.Fatalf("told %v", told)
	}
	pause := watcher.ringPause
	due()
	if len(told) != 1 || watcher.ringPause != 2*pause {
		t.Errorf("told %d times, pauses %v and %v", len(told), pause, watcher.ringPause)
	}
	r.there(true)
	due()
	if len(told) != 2 || told[1].Server("b").Command != "hush-B" || !watcher.ringAt.IsZero() {
		t.Errorf("told %d times: %+v", len(told), told[len(told)-1].Server("b"))
	}

	// One that is gone from a keyring that can be used is gone.
	must(t, zalando.DeleteAll("metamcp "+filepath.Dir(s.Path())))
	lost, err := Reload(src, told[1])
	must(t, err)
	if err := lost.Server("a").Err; err == nil || !strings.Contains(err.Message, "not there any more") {
		t.Errorf("lost: %v", err)
	}
}
