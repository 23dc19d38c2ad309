package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/secrets"
)

func store(t *testing.T, dir, name, value string) *secrets.Store {
	t.Helper()
	s := secrets.New(dir)
	if _, err := s.Set(t.Context(), name, value, true); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSecrets(t *testing.T) {
	w := newWorld(t)
	store(t, filepath.Join(w.home, ".metamcp"), "GITHUB.pat", "hush-hush")
	cfg := w.load(`{"mcpServers": {
		"good": {"command": "x", "args": ["--token=${secret:GITHUB.pat}"], "env": {"A": "${secret:GITHUB.pat}", "B": "$${secret:GITHUB.pat}", "C": "${secret:NONE:-plain}"}},
		"remote": {"url": "https://x.example", "headers": {"Authorization": "Bearer ${secret:GITHUB.pat}"}, "oauth": {"clientId": "a", "clientSecret": "${secret:GITHUB.pat}"}},
		"missing": {"command": "x", "env": {"A": "${secret:NOT_THERE}"}},
		"odd": {"command": "${secret:../x}"},
		"off": {"command": "x", "disabled": true, "env": {"A": "${secret:NOT_THERE}"}}
	}, "metamcp": {"search": {"embedderUrl": "https://${secret:GITHUB.pat}.example"}}}`)
	good := cfg.Server("good")
	if good.Err != nil || good.Args[0] != "--token=hush-hush" || !strings.Contains(strings.Join(good.Env, "\n"), "A=hush-hush\nB=${secret:GITHUB.pat}\nC=plain") {
		t.Errorf("%+v", good)
	}
	if good.Filled["secret:GITHUB.pat"] != "hush-hush" || cfg.Secrets()["GITHUB.pat"] != "hush-hush" || len(cfg.Secrets()) != 1 {
		t.Errorf("filled %v, all %v", good.Filled, cfg.Secrets())
	}
	if r := cfg.Server("remote"); r.Headers["Authorization"] != "Bearer hush-hush" || r.OAuth == nil || r.OAuth.ClientSecret != "hush-hush" {
		t.Errorf("%+v, %+v", r, r.OAuth)
	}
	if cfg.Settings.Search.EmbedderURL != "https://hush-hush.example" {
		t.Errorf("a setting is %s", cfg.Settings.Search.EmbedderURL)
	}
	if err := cfg.Server("missing").Err; err == nil || !strings.Contains(err.Message, "the secret NOT_THERE is not stored") || !strings.Contains(err.Hint, "metamcp secrets set NOT_THERE") {
		t.Errorf("a missing one: %v", err)
	}
	if err := cfg.Server("odd").Err; err == nil || !strings.Contains(err.Message, "does not name a secret") {
		t.Errorf("no name: %v", err)
	}
	users := cfg.SecretUsers()
	if got := strings.Join(users["GITHUB.pat"], ","); got != "good,remote," {
		t.Errorf("it is used by %q", got)
	}
	if got := strings.Join(users["NOT_THERE"], ","); got != "missing,off" {
		t.Errorf("it is used by %q", got)
	}
	if strings.Contains(texts(cfg.Problems)+texts(cfg.Warnings), "hush") {
		t.Error("a value is in a message")
	}
}

// TestSecretsFollowTheStateFolder: however it is set, and wherever in the files.
func TestSecretsFollowTheStateFolder(t *testing.T) {
	const server = `"mcpServers": {"a": {"command": "${secret:A}"}}`
	for _, c := range []struct {
		name, text string
		env        string
	}{
		{"file", `{` + server + `, "metamcp": {"stateDir": "~/other"}}`, ""},
		{"file and variable in it", `{` + server + `, "metamcp": {"stateDir": "${WHERE}/other"}}`, ""},
		{"variable", `{` + server + `}`, "METAMCP_STATE_DIR=~/other"},
		{"variable over file", `{` + server + `, "metamcp": {"stateDir": "~/third"}}`, "METAMCP_STATE_DIR=~/other"},
	} {
		w := newWorld(t)
		w.env = append(w.env, "WHERE="+w.home)
		if c.env != "" {
			w.env = append(w.env, c.env)
		}
		store(t, filepath.Join(w.home, "other"), "A", "from-other")
		if cfg := w.load(c.text); cfg.Server("a").Command != "from-other" {
			t.Errorf("%s: %+v", c.name, cfg.Server("a"))
		}
	}
}

func TestSecretsThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	s := store(t, filepath.Join(w.home, ".metamcp"), "A", "hush-hush")
	if err := os.WriteFile(s.Path(), []byte(`{"secrets": "hush`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := w.load(`{"mcpServers": {"a": {"command": "${secret:A}"}, "b": {"command": "b"}, "c": {"command": "${secret:A:-c}"}}}`)
	for _, name := range []string{"a", "c"} {
		if err := cfg.Server(name).Err; err == nil || !strings.Contains(err.Message, "damaged") || strings.Contains(err.Message, "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if cfg.Server("b").Err != nil {
		t.Errorf("another server: %v", cfg.Server("b").Err)
	}
}

// serversOf are the steps from one configuration to another that are of servers.
func serversOf(old, next *Config) (steps []Action) {
	for _, a := range Diff(old, next) {
		switch a.(type) {
		case ServerAdded, ServerRemoved, ServerChanged, ServerUpdated:
			steps = append(steps, a)
		}
	}
	return steps
}

// TestReloadKeepsSecretsThatCannotBeRead: a store that cannot be used says nothing of
// what is in it, so nothing ends for it; what is new and needs it is broken.
func TestReloadKeepsSecretsThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	path := store(t, filepath.Join(w.home, ".metamcp"), "A", "hush-hush").Path()
	const text = `"a": {"command": "${secret:A}"}, "both": {"command": "${secret:A:-x}"}, "none": {"command": "${secret:B:-x}"}`
	cfg := w.load(`{"mcpServers": {` + text + `}}`)
	clean(t, cfg)
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700)) // which cannot be read as a file
	src := w.sources(w.file("test.json", `{"mcpServers": {`+text+`, "new": {"command": "${secret:C}"}}}`))
	again, err := Reload(src, cfg)
	must(t, err)
	if again.Server("a").Command != "hush-hush" || again.Secrets()["A"] != "hush-hush" || again.Server("new").Err == nil {
		t.Errorf("a %+v, new %v", again.Server("a"), again.Server("new").Err)
	}
	if steps := serversOf(cfg, again); len(steps) != 1 { // the new one
		t.Errorf("steps %+v", steps)
	}
	if len(again.Warnings) != 1 || !strings.Contains(again.Warnings[0].Message, "stays in force") || strings.Contains(texts(again.Problems)+texts(again.Warnings), "hush") {
		t.Errorf("warnings %v", again.Warnings)
	}
	must(t, os.Remove(path))
	if gone, err := Reload(src, again); err != nil || gone.Server("a").Err == nil {
		t.Errorf("a store that is gone: %v", err)
	}
}

// TestWatchKeepsWhatOthersHaveRead: what a Reload has put in force is in force for the
// Watcher as well, though it has not read it itself.
func TestWatchKeepsWhatOthersHaveRead(t *testing.T) {
	w := newWorld(t)
	const text = `{"mcpServers": {"a": {"command": "${secret:A}"}}}`
	src := w.sources(w.file("test.json", text))
	first, err := Load(src)
	must(t, err)
	if first.Server("a").Err == nil {
		t.Fatal("a secret that is not stored is found")
	}
	path := store(t, filepath.Join(w.home, ".metamcp"), "A", "hush-hush").Path()
	second, err := Reload(src, first)
	must(t, err)
	clean(t, second)
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700)) // which cannot be read as a file
	var told []*Config
	watcher := newWatcher(src, first, func(c *Config, err error) { must(t, err); told = append(told, c) }, time.Hour)
	watcher.inForce = func() *Config { return second }
	w.file("test.json", text+"\n")
	watcher.check(true)
	if len(told) != 1 || told[0].Server("a").Err != nil || told[0].Server("a").Command != "hush-hush" {
		t.Errorf("it tells of %+v", told)
	}
}

// TestTheStoreIsReadOnce: all secrets of one load come from one reading of the file,
// however many there are.
func TestTheStoreIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	var path string
	for _, name := range []string{"A", "B"} {
		path = store(t, dir, name, "hush-"+name).Path()
	}
	s := &secretSource{stateDir: func() string { return dir }}
	for _, name := range []string{"A", "B"} {
		if value, ok, err := s.resolve(name); value != "hush-"+name || !ok || err != nil {
			t.Errorf("%s is %q, %t, %v", name, value, ok, err)
		}
		must(t, os.RemoveAll(path)) // whoever reads it again finds nothing
	}
}

// TestWatchSecrets: a change of the store is one of the configuration that asks
// for it.
func TestWatchSecrets(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			w := newWorld(t)
			state := filepath.Join(w.home, ".metamcp")
			must(t, os.MkdirAll(state, 0o700))
			src := w.sources(w.file("c.json", `{"mcpServers": {"a": {"command": "x", "env": {"A": "${secret:A}"}}}}`))
			cfg, err := Load(src)
			must(t, err)
			if cfg.Server("a").Err == nil {
				t.Fatal("a secret that is not there was found")
			}
			n := startWatching(t, src, cfg, mode.poll, mode.notify)
			hash := cfg.Server("a").Hash
			for _, value := range []string{"first", "other"} {
				store(t, state, "A", value)
				c := n.until(value, func(c change) bool { return c.err == nil && c.cfg.Secrets()["A"] == value })
				if a := c.cfg.Server("a"); a.Err != nil || a.Hash == hash {
					t.Errorf("with %s: %v, its hash did not change", value, a.Err)
				}
				hash = c.cfg.Server("a").Hash
			}
		})
	}
}
