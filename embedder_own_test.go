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
