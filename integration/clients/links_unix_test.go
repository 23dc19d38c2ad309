//go:build unix

package clients

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file behind a link is written, and the link stays; so is a file with two
// names, and one of another owner keeps him.
func TestLinksAndOwners(t *testing.T) {
	s, paths := machine(t, "cursor", "codex", "zed")
	dotfiles := filepath.Join(s.Home, "dotfiles", "mcp.json")
	if err := os.MkdirAll(filepath.Dir(dotfiles), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(paths["cursor"], dotfiles); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../dotfiles/mcp.json", paths["cursor"]); err != nil {
		t.Fatal(err)
	}
	twin := filepath.Join(s.Home, "twin.toml")
	if err := os.Link(paths["codex"], twin); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	root := os.Geteuid() == 0
	if root {
		if err := os.Chown(paths["zed"], nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	before := map[string]string{}
	for id, path := range paths {
		before[id] = read(t, path)
	}
	check := func() {
		t.Helper()
		if info, err := os.Lstat(paths["cursor"]); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link: %v, %v", info, err)
		}
		if !SameFile(paths["codex"], twin) {
			t.Error("the second name is another file now")
		}
		info, err := os.Stat(paths["zed"])
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); root && (!ok || st.Uid != nobody || st.Gid != nobody) {
			t.Errorf("the owner: %+v", st)
		}
	}
	for _, c := range initClients(t, s, InitOptions{}) {
		if !c.Written {
			t.Errorf("%+v", c)
		}
	}
	check()
	if read(t, dotfiles) == before["cursor"] || read(t, twin) == before["codex"] {
		t.Error("nothing was written")
	}
	undo(t, s, "init")
	check()
	for id, path := range paths {
		if read(t, path) != before[id] {
			t.Errorf("%s is not as it was", id)
		}
	}
}
