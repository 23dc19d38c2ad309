package metamcp

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Vectors are kept under the name of their model, so two files of one name are two models.
func TestFilesOfOneNameAreDifferentModels(t *testing.T) {
	programs := t.TempDir()
	for _, name := range []string{"metamcp-embed", "metamcp-embed.exe"} {
		if err := os.WriteFile(filepath.Join(programs, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", programs)
	model := func(path string) string {
		t.Helper()
		e, err := newEmbedder(embedderChoice{kind: "local", model: path, stateDir: programs}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		return e.Model()
	}
	write := func(path, content string, changed time.Time) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
		return model(path)
	}
	one, other := filepath.Join(t.TempDir(), "m.gguf"), filepath.Join(t.TempDir(), "m.gguf")
	then := time.Unix(1_700_000_000, 0)
	absent := model(one)
	first := write(one, "weights", then)
	if again := model(one); again != first || !strings.HasPrefix(first, "local/m.gguf@") {
		t.Errorf("one file has the names %s and %s", first, again)
	}
	names := map[string]string{absent: "none yet", first: "the first"}
	for what, name := range map[string]string{
		"one in another folder": write(other, "weights", then),
		"a larger one":          write(one, "more weights", then),
		"a later one":           write(one, "weights", then.Add(time.Second)),
	} {
		if same := names[name]; same != "" {
			t.Errorf("%s has the name of %s: %s", what, same, name)
		}
		names[name] = what
	}
}

// TestAutomaticChoice has the first embedder that is configured taken, with the model
// that is its own.
func TestAutomaticChoice(t *testing.T) {
	programs, empty := t.TempDir(), t.TempDir()
	for _, name := range []string{"metamcp-embed", "metamcp-embed.exe"} {
		if err := os.WriteFile(filepath.Join(programs, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "models"), 0o700); err != nil {
		t.Fatal(err)
	}
	const listed = `{"version":1,"models":{"mini":{"name":"mini","sha256":"00","size":7,"architecture":"bert","installedAt":"2026-01-02T00:00:00Z"},"voyage-copy":{"name":"voyage-copy","sha256":"00","size":7,"architecture":"bert","installedAt":"2026-01-01T00:00:00Z"}}}`
	for name, text := range map[string]string{"models.json": listed, "mini.gguf": "weights", "voyage-copy.gguf": "weights"} {
		if err := os.WriteFile(filepath.Join(state, "models", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const url, key = "http://127.0.0.1:11434", "pa-key"
	for _, c := range []struct {
		what                string
		key, fallback       string
		url, model          string
		installed, noWorker bool
		want                string // the beginning of the model's name
	}{
		{what: "nothing", want: "builtin/"},
		{what: "everything", key: key, url: url, model: "m", installed: true, want: "voyage/voyage-3-lite"},
		{what: "a model of Voyage", key: key, model: "voyage-3.5", want: "voyage/voyage-3.5"},
		{what: "one beside an address", key: key, url: url, model: "voyage-3.5", want: "voyage/voyage-3.5"},
		{what: "a key, and a file", key: key, model: "/models/m.gguf", want: "voyage/voyage-3-lite"},
		{what: "a key, and what another server calls a model", key: key, url: url, model: "voyage-x.gguf", want: "voyage/voyage-3-lite"},
		{what: "a key, and an installed model", key: key, model: "mini", installed: true, want: "voyage/voyage-3-lite"},
		{what: "a key in the other variable", fallback: key, url: url, model: "m", want: "voyage/voyage-3-lite"},
		{what: "a key of Anthropic", fallback: "sk-ant-key", url: url, model: "m", want: "openai/127.0.0.1:11434/m"},
		{what: "an address", url: url, model: "m", installed: true, want: "openai/127.0.0.1:11434/m"},
		{what: "an address, and what its server calls a model", url: url, model: "m.gguf", want: "openai/127.0.0.1:11434/m.gguf"},
		{what: "an installed model", installed: true, want: "local/mini@"},
		{what: "an installed model by name", model: "mini", installed: true, want: "local/mini@"},
		{what: "an installed model that is called like those of Voyage", model: "voyage-copy", installed: true, want: "local/voyage-copy@"},
		{what: "an installed model, after Voyage", model: "voyage-3.5", installed: true, want: "local/mini@"},
		{what: "an installed model without its program", installed: true, noWorker: true, want: "builtin/"},
		{what: "a file", model: "/models/m.gguf", want: "local/m.gguf@"},
		{what: "a file without the program", model: "/models/m.gguf", noWorker: true, want: "builtin/"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Setenv("VOYAGE_API_KEY", c.key)
			t.Setenv("ANTHROPIC_API_KEY", c.fallback)
			t.Setenv("PATH", programs)
			if c.noWorker {
				t.Setenv("PATH", empty)
			}
			choice := embedderChoice{kind: "auto", url: c.url, model: c.model, keyVariable: "METAMCP_TEST_NO_KEY", stateDir: empty}
			if c.installed {
				choice.stateDir = state
			}
			e, err := newEmbedder(choice, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			if got := e.Model(); !strings.HasPrefix(got, c.want) {
				t.Errorf("the model is %s; want %s", got, c.want)
			}
		})
	}
}
