package metamcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// loadIn loads a configuration whose home is dir.
func loadIn(t *testing.T, dir string, cfg map[string]any) *config.Config {
	t.Helper()
	file, err := writeConfig(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(config.Sources{Files: []string{file}, Home: dir, Cwd: dir})
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// pidsIn are the processes that demo servers have noted in a file.
func pidsIn(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

func TestTryServers(t *testing.T) {
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	servers := map[string][]string{
		"good": {"--pid-file", pids}, "other": {"--pid-file", pids, "--tools", "3"},
		"crash": {"--exit-at-start", "3", "--exit-text", "no luck"}, "silent": {"--silent", "--stderr-lines", "2", "--pid-file", pids},
		"not": {"--pid-file", pids},
	}
	cfg := loadIn(t, dir, children(servers, map[string]any{"pool": map[string]any{"minPoolSize": 5}}))
	cfg.Server("good").Limits.Processes = 200 // which may need a control group that only the host has
	starts, err := metamcp.TryServers(t.Context(), cfg, metamcp.StartOptions{
		Wanted: func(name string) bool { return name != "not" }, Timeout: 2 * time.Second, Parallel: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(starts) != 4 {
		t.Fatalf("%d starts", len(starts))
	}
	for _, s := range starts {
		switch s.Spec.Name {
		case "good", "other":
			if s.Err != nil || s.Tools == nil || len(s.Tools.Tools) < 17 || s.Tools.Version == "" || s.Took <= 0 {
				t.Errorf("%s: %+v", s.Spec.Name, s)
			}
		case "crash":
			if s.Err == nil || s.Err.Class != messages.ClassStdioExit || !slices.Contains(s.Err.Details, "no luck") {
				t.Errorf("crash: %+v", s.Err)
			}
		case "silent":
			if s.Err == nil || len(s.Err.Details) != 2 || !strings.HasSuffix(s.Err.Details[1], "line 2 of 2 at start") {
				t.Errorf("silent: %+v", s.Err)
			}
		default:
			t.Errorf("%s was not to be started", s.Spec.Name)
		}
		if spec := cfg.Server(s.Spec.Name); s.Spec != spec || spec.StartupTimeout != 30*time.Second {
			t.Errorf("the entry of %s was changed", s.Spec.Name)
		}
	}
	// They may try the discover probe and start again, so there are at least these.
	if words := pidsIn(t, pids); len(words) < 6 {
		t.Errorf("processes %q", words)
	}
	if _, err := os.Stat(cfg.Settings.StateDir); err == nil {
		t.Errorf("it has made the state folder %s", cfg.Settings.StateDir)
	}
}

func TestTryServersInterrupted(t *testing.T) {
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	silent := []string{"--silent", "--pid-file", pids}
	cfg := loadIn(t, dir, children(map[string][]string{"a": silent, "b": silent, "c": silent}, nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan []doctor.Start, 1)
	go func() {
		starts, err := metamcp.TryServers(ctx, cfg, metamcp.StartOptions{Parallel: 1})
		if err != nil {
			t.Error(err)
		}
		ended <- starts
	}()
	testkit.Eventually(t, 20*time.Second, func() error {
		_, err := os.Stat(pids)
		return err
	})
	cancel()
	select {
	case starts := <-ended:
		if len(starts) != 3 {
			t.Errorf("%d starts", len(starts))
		}
		for _, s := range starts {
			if s.Err == nil || s.Err.Code != messages.CodeCancelled {
				t.Errorf("%s: %+v", s.Spec.Name, s.Err)
			}
		}
	case <-time.After(25 * time.Second): // a start alone would take thirty
		t.Fatal("it goes on after the interrupt")
	}
	for _, word := range pidsIn(t, pids) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			continue // "server", which stands behind each
		}
		testkit.Eventually(t, 20*time.Second, func() error {
			if _, alive := proctree.StartTime(pid); alive {
				return fmt.Errorf("process %d lives", pid)
			}
			return nil
		})
	}
}

func TestTryServersWithoutServers(t *testing.T) {
	cfg := loadIn(t, t.TempDir(), map[string]any{"mcpServers": map[string]any{
		"off": map[string]any{"command": "x", "disabled": true}, "broken": map[string]any{},
	}})
	if starts, err := metamcp.TryServers(t.Context(), cfg, metamcp.StartOptions{}); err != nil || starts != nil {
		t.Errorf("%+v, %v", starts, err)
	}
}

// one is the only result of a check.
func one(t *testing.T, c doctor.Check) doctor.Result {
	t.Helper()
	results := doctor.Run(t.Context(), []doctor.Check{c}, nil, 0)
	if len(results) != 1 {
		t.Fatalf("%+v", results)
	}
	return results[0]
}

func TestCacheCheck(t *testing.T) {
	dir := t.TempDir()
	cfg := loadIn(t, dir, children(map[string][]string{"a": nil, "b": nil}, map[string]any{"stateDir": filepath.Join(dir, "state")}))
	if r := one(t, metamcp.CacheCheck(cfg)); r.Status != doctor.OK || !strings.Contains(r.Found, "0 of 2") {
		t.Errorf("%+v", r)
	}
	folder := filepath.Join(dir, "state", "cache", "b")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "schema.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := one(t, metamcp.CacheCheck(cfg)); r.Status != doctor.Warn || r.Subject != "b" || r.ID != "state.cache" || !strings.Contains(r.Fix, "--server b") {
		t.Errorf("%+v", r)
	}
}

func TestEmbedderCheck(t *testing.T) {
	const key = "pa-this-is-a-secret"
	var asked atomic.Int64
	var status atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "Bearer "+key {
			t.Error("asked without the key")
		}
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, `{"data":[{"index":0,"embedding":[1,0,0]}],"model":"m"}`)
	}))
	defer s.Close()
	for _, c := range []struct {
		name    string
		search  map[string]any
		env     map[string]string
		network bool
		answer  int
		status  doctor.Status
		found   string
		asked   int64
	}{
		{"none", map[string]any{"embedder": "none"}, nil, true, 0, doctor.OK, "by words alone", 0},
		{"built in", map[string]any{"embedder": "builtin"}, nil, true, 0, doctor.OK, "builtin, model ", 0},
		{"by itself", nil, nil, true, 0, doctor.OK, "(chosen by itself)", 0},
		{"a key that is missing", map[string]any{"embedder": "voyage"}, nil, false, 0, doctor.Fail, "voyage (chosen by search.embedder) cannot be used", 0},
		{"a key", map[string]any{"embedder": "voyage", "embedderUrl": s.URL}, map[string]string{"VOYAGE_API_KEY": key}, false, 0, doctor.OK, "key from VOYAGE_API_KEY", 0},
		{"refused", map[string]any{"embedder": "openai", "embedderUrl": s.URL, "embedderModel": "m", "embedderKeyEnv": "MY_KEY"}, map[string]string{"MY_KEY": key}, true, http.StatusUnauthorized, doctor.Fail, "openai does not answer", 1},
		{"answered", map[string]any{"embedder": "openai", "embedderUrl": s.URL, "embedderModel": "m", "embedderKeyEnv": "MY_KEY"}, map[string]string{"MY_KEY": key}, true, http.StatusOK, doctor.OK, "answered in", 1},
		{"no model", map[string]any{"embedder": "local"}, nil, false, 0, doctor.Fail, "local (chosen by search.embedder) cannot be used", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"VOYAGE_API_KEY", "ANTHROPIC_API_KEY"} {
				t.Setenv(name, "")
			}
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			status.Store(int64(c.answer))
			asked.Store(0)
			settings := map[string]any{}
			if c.search != nil {
				settings["search"] = c.search
			}
			r := one(t, metamcp.EmbedderCheck(loadIn(t, t.TempDir(), children(nil, settings)), c.network))
			if r.Status != c.status || !strings.Contains(r.Found, c.found) || (r.Fix == "") != (r.Status == doctor.OK) {
				t.Errorf("%+v", r)
			}
			if text := fmt.Sprint(r); strings.Contains(text, key) {
				t.Error("it shows the key")
			}
			if n := asked.Load(); n != c.asked {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
