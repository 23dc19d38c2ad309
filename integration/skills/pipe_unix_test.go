//go:build unix

package skills

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe holds nobody up, and a link leads to a skill.
func TestPipesAndLinks(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pipe"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe", fileName), 0o600); err != nil {
		t.Fatal(err)
	}
	skill(t, filepath.Join(elsewhere, "a"), "---\nname: a\ndescription: d\n---\n")
	for link, target := range map[string]string{"a": filepath.Join(elsewhere, "a"), "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	skills, problems := NewReader([]string{dir}).Read(t.Context())
	if len(skills) != 1 || skills[0].Path != filepath.Join(dir, "a", fileName) || len(problems) != 2 {
		t.Errorf("%v, %v", skills, problems)
	}
}
