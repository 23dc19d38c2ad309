package local

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestEnvironment(t *testing.T) {
	abs, err := filepath.Abs("lib")
	if err != nil {
		t.Fatal(err)
	}
	env := environment(&Config{
		LibraryDirs: []string{abs, "relative"},
		Environ:     []string{"HOME=/h", "OPENAI_API_KEY=secret", "CUDA_VISIBLE_DEVICES=1", libraryPath + "=" + string(filepath.ListSeparator) + "also-relative"},
	})
	want := []string{"GOTRACEBACK=none", "GGML_NO_BACKTRACE=1", "HOME=/h", "CUDA_VISIBLE_DEVICES=1", libraryPath + "=" + abs}
	if !slices.Equal(env, want) {
		t.Errorf("got  %q\nwant %q", env, want)
	}
}
