package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the generated parts of docs/")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a home and a working folder of a test's own.
type world struct {
	t         *testing.T
	home, cwd string
	env       []string
	overlay   *Overlay
}

func newWorld(t *testing.T, env ...string) *world {
	t.Helper()
	w := &world{t: t, home: t.TempDir(), cwd: t.TempDir(), env: append([]string{"PATH=/bin"}, env...)}
	return w
}

func (w *world) sources(files ...string) Sources {
	return Sources{Files: files, Home: w.home, Cwd: w.cwd, Environ: w.env, Overlay: w.overlay}
}

// file writes a file below the working folder and returns its path.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.cwd, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// load loads one file of that text.
func (w *world) load(text string) *Config {
	w.t.Helper()
	cfg, err := Load(w.sources(w.file("test.json", text)))
	if err != nil {
		w.t.Fatal(err)
	}
	return cfg
}

// failing returns the error of a load that must fail.
func failing(t *testing.T, s Sources) *messages.Error {
	t.Helper()
	cfg, err := Load(s)
	if err == nil || cfg != nil {
		t.Fatalf("Load succeeded: %v", cfg)
	}
	var e *messages.Error
	if !errors.As(err, &e) || e.Code != messages.CodeConfiguration {
		t.Fatalf("error is %T %v, want a CONFIGURATION_ERROR", err, err)
	}
	return e
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q does not hold %q", text, p)
		}
	}
}

func texts(list []Problem) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func clean(t *testing.T, cfg *Config) {
	t.Helper()
	if len(cfg.Problems)+len(cfg.Warnings) > 0 {
		t.Errorf("unexpected:\n%s%s", texts(cfg.Problems), texts(cfg.Warnings))
	}
}
