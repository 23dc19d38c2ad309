package proctree

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		stat string
		want Process
		ok   bool
	}{
		{"12 (sh) S 3 4 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 777 1 2\n", Process{PID: 12, PPID: 3, Group: 4, Session: 5, Start: 777, Name: "sh"}, true},
		{"12 (a) b) (c) R 3 4 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 777 9\n", Process{PID: 12, PPID: 3, Group: 4, Session: 5, Start: 777, Name: "a) b) (c"}, true},
		{"12 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 0 0 0 0 777 9\n", Process{PID: 12, PPID: 2, Start: 777, Name: "kworker/0:1", kernel: true}, true},
		{"12 (sh) Z 3 4 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 777 9\n", Process{}, false},
		{"12 (sh) S 3", Process{}, false},
		{"12 sh S", Process{}, false},
		{"", Process{}, false},
		{")(", Process{}, false},
	} {
		got, ok := parseStat([]byte(c.stat))
		if ok != c.ok || ok && got != c.want {
			t.Errorf("parseStat(%q) = %+v, %v; want %+v, %v", c.stat, got, ok, c.want, c.ok)
		}
	}
}

func TestFindMarker(t *testing.T) {
	for environ, want := range map[string]string{
		"METAMCP_TREE=h.1\x00A=2\x00":     "h.1",
		"A=2\x00METAMCP_TREE=h.1":         "h.1",
		"XMETAMCP_TREE=h.1\x00":           "",
		"A=METAMCP_TREE=h.1\x00":          "",
		"METAMCP_TREE=\x00":               "",
		"METAMCP_TREE=h.1\x00\x00\x00":    "h.1",
		"\x00\x00METAMCP_TREE=h.2\x00B=1": "h.2",
		"":                                "",
	} {
		if got := findMarker([]byte(environ)); got != want {
			t.Errorf("findMarker(%q) = %q, want %q", environ, got, want)
		}
	}
}

// TestScanSeesThoseThatExec: a process that becomes another program all the time has
// no environment for much of it, and is found nevertheless, at one of two looks, which
// is what the end of a tree relies on.
func TestScanSeesThoseThatExec(t *testing.T) {
	script := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(script, []byte("exec sh \"$0\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", script)
	cmd.Env = append(os.Environ(), MarkerVar+"=exec.1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	missed := 0
	for i := range 300 {
		snap, err := Scan(0)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(snap, func(p Process) bool { return p.PID == cmd.Process.Pid && p.Marker == "exec.1" }) {
			missed = 0
		} else if missed++; missed == 2 {
			t.Fatalf("scans %d and %d do not see it", i-1, i)
		}
	}
}
