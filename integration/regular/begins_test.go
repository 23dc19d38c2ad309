package regular_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/metamcp/metamcp/integration/regular"
)

func TestBegins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]bool{"": true, `{"`: true, `{"v":`: true, `{"v":1}`: true, `{"w`: false, "\n": false, "{\n  \"mcpServers\"": false} {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := regular.Begins(path, `{"v":`); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got, err := regular.Begins(filepath.Join(dir, "missing"), "x"); !got || err != nil {
		t.Errorf("a missing file: %v, %v", got, err)
	}
	if _, err := regular.Begins(dir, "x"); !errors.Is(err, regular.ErrNotRegular) {
		t.Errorf("a folder: %v", err)
	}
}

func TestAppendable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours := func(beginning []byte) bool { return string(beginning) == "ours" }
	for text, foreign := range map[string]bool{"": false, "ours": false, "other": true} {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := regular.Appendable(path, ours); errors.Is(err, regular.ErrForeign) != foreign || !foreign && err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	missing := filepath.Join(dir, "missing")
	if err := regular.Appendable(missing, ours); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("it was made")
	}
	if err := regular.Appendable(dir, ours); !errors.Is(err, regular.ErrNotRegular) {
		t.Errorf("a folder: %v", err)
	}
}
