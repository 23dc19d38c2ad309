package control_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/childlog"
	"github.com/metamcp/metamcp/integration/control"
)

func TestLastLines(t *testing.T) {
	long := strings.Repeat("z", 100_000)
	for _, tt := range []struct {
		name  string
		files []string // newest first
		n     int
		want  string
	}{
		{"none", nil, 5, ""},
		{"empty", []string{""}, 5, ""},
		{"fewer", []string{"a\nb\n"}, 5, "a\nb\n"},
		{"exactly", []string{"a\nb\n"}, 2, "a\nb\n"},
		{"some", []string{"a\nb\nc\n"}, 2, "b\nc\n"},
		{"zero", []string{"a\nb\n"}, 0, ""},
		{"no newline at the end", []string{"a\nb"}, 1, "b"},
		{"empty lines", []string{"a\n\n\n"}, 2, "\n\n"},
		{"across files", []string{"e\nf\n", "c\nd\n", "a\nb\n"}, 5, "b\nc\nd\ne\nf\n"},
		{"all of one file", []string{"e\nf\n", "c\nd\n"}, 2, "e\nf\n"},
		{"the newest is empty", []string{"", "c\nd\n"}, 1, "d\n"},
		{"longer than a block", []string{"a\n" + long + "\n" + long + "\n"}, 2, long + "\n" + long + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for i, text := range tt.files {
				name := "s.log"
				if i > 0 {
					name = fmt.Sprintf("s.log.%d", i)
				}
				put(t, dir, name, text)
			}
			put(t, dir, "s.log.x", "foreign\n")
			put(t, dir, "s2.log", "foreign\n")
			var out bytes.Buffer
			err := control.CopyLogs(t.Context(), &out, func() ([]string, error) { return control.LogFiles(dir, "s") }, control.LogOptions{Lines: tt.n})
			if err != nil || out.String() != tt.want {
				t.Errorf("%q, %v; want %q", out.String(), err, tt.want)
			}
		})
	}
}

// Names of the files are those that childlog gives.
func TestLogFilesAreThoseOfChildlog(t *testing.T) {
	dir := t.TempDir()
	d := childlog.NewFolder(dir, childlog.Options{})
	l := d.Open("GitHub", "")
	_, _ = l.Write([]byte("hello\n"))
	l.Close()
	if got, err := control.LogFiles(dir, "GitHub"); err != nil || len(got) != 1 || got[0] != d.Path("GitHub") {
		t.Errorf("%q, %v; want %q", got, err, d.Path("GitHub"))
	}
	if got, err := control.LogFiles(filepath.Join(dir, "none"), "GitHub"); err != nil || len(got) > 0 {
		t.Errorf("no folder: %q, %v", got, err)
	}
}

// Not a line is lost or doubled while the files turn over, as childlog does it,
// nor when the log is made only after somebody follows it.
func TestFollowAcrossRotation(t *testing.T) {
	h := newFakeHost()
	h.logDir = t.TempDir()
	c := dial(t, start(t, control.Options{Host: h}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	text, err := c.Logs(ctx, "s", control.LogOptions{Lines: 10, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	got := bufio.NewScanner(text)
	const turns, perTurn = 12, 5
	n := 0
	for turn := range turns {
		for i := range perTurn {
			line := fmt.Sprintf("line %d of turn %d", i, turn)
			appendLine(t, filepath.Join(h.logDir, "s.log"), line)
			n++
			// Only what was read is let go: the oldest file is removed by a turn.
			if i == perTurn-1 {
				for k := n - perTurn; k < n; k++ {
					want := fmt.Sprintf("line %d of turn %d", k%perTurn, k/perTurn)
					if !got.Scan() || got.Text() != want {
						t.Fatalf("%q, %v; want %q", got.Text(), got.Err(), want)
					}
				}
			}
		}
		if turn%2 == 0 {
			rotate(t, h.logDir)
			if turn%4 == 0 { // a second time before anybody looks
				appendLine(t, filepath.Join(h.logDir, "s.log"), "between")
				rotate(t, h.logDir)
				appendLine(t, filepath.Join(h.logDir, "s.log"), "after")
				for _, want := range []string{"between", "after"} {
					if !got.Scan() || got.Text() != want {
						t.Fatalf("%q, %v; want %q", got.Text(), got.Err(), want)
					}
				}
			}
		}
	}
	// Emptied in its place: what comes then is new.
	if err := os.Truncate(filepath.Join(h.logDir, "s.log"), 0); err != nil {
		t.Fatal(err)
	}
	appendLine(t, filepath.Join(h.logDir, "s.log"), "new")
	if !got.Scan() || got.Text() != "new" {
		t.Fatalf("%q after the file was emptied", got.Text())
	}
}

func appendLine(t *testing.T, path, line string) {
	t.Helper()
	f, err := childlog.OpenAppend(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}

// rotate does what childlog does with a full file.
func rotate(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "s.log")
	_ = os.Rename(path+".1", path+".2")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	f, err := childlog.OpenAppend(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
