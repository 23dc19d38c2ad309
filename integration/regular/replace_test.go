package regular_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/regular"
)

func TestReplaceLeavesFilesOfOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	ours := func(beginning []byte) bool { return bytes.HasPrefix(beginning, []byte("ours")) }
	replace := func(text string) error {
		f, err := regular.Replace(path, ours)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, f.Close())
	}
	read := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if err := regular.Replaceable(path, ours); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("to ask made the file: %v", err)
	}
	for _, text := range []string{"ours" + strings.Repeat(" and long", 1<<10), "ours", ""} {
		if err := replace(text); err != nil || read() != text {
			t.Errorf("%.9q: %v", text, err)
		}
		if err := regular.Replaceable(path, ours); err != nil || read() != text {
			t.Errorf("after %.9q: %v", text, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("the mode of a made file: %v, %v", info.Mode(), err)
	}
	for _, text := range []string{"our", "\n", " ours", strings.Repeat("x", 1<<13)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"replace": replace("ours"), "ask": regular.Replaceable(path, ours)} {
			var failure *fs.PathError
			if !errors.Is(err, regular.ErrForeign) || !errors.As(err, &failure) || failure.Path != path {
				t.Errorf("%s %.9q: %v, want ErrForeign", what, text, err)
			}
		}
		if read() != text {
			t.Errorf("%.9q was written to", text)
		}
	}
	if _, err := regular.Replace(filepath.Dir(path), ours); !errors.Is(err, regular.ErrNotRegular) {
		t.Errorf("a folder: %v", err)
	}
}
