package childlog_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/childlog"
	"github.com/metamcp/metamcp/integration/scrub"
)

// clock is a clock that the test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, l *childlog.Log, p []byte) {
	t.Helper()
	if n, err := l.Write(p); n != len(p) || err != nil {
		t.Fatalf("Write = %d, %v; it must take all %d bytes", n, err, len(p))
	}
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes []string
		last   []string
		file   string
	}{
		{"whole", []string{"a\nb\n"}, []string{"a", "b"}, "T #1 a\nT #1 b\n"},
		{"in pieces", []string{"a", "b", "\nc", "d\n"}, []string{"ab", "cd"}, "T #1 ab\nT #1 cd\n"},
		{"no end", []string{"a\nlast"}, []string{"a", "last"}, "T #1 a\nT #1 last\n"},
		{"carriage returns and empty lines", []string{"a\r\n\r\n\nb\n"}, []string{"a", "b"}, "T #1 a\nT #1 b\n"},
		{"cut in memory", []string{strings.Repeat("x", 600) + "\n"}, []string{strings.Repeat("x", 500) + " … (cut)"}, "T #1 " + strings.Repeat("x", 600) + "\n"},
		{"cut between runes", []string{strings.Repeat("x", 499) + "ä\n"}, []string{strings.Repeat("x", 499) + " … (cut)"}, "T #1 " + strings.Repeat("x", 499) + "ä\n"},
		{"cut in the file", []string{strings.Repeat("x", 5000), strings.Repeat("x", 5000) + "\nnext\n"},
			[]string{strings.Repeat("x", 500) + " … (cut)", "next"}, "T #1 " + strings.Repeat("x", 8192) + " … (cut)\nT #1 next\n"},
		{"a secret where the line is cut", []string{strings.Repeat("x", 8189) + "SECRET" + strings.Repeat("y", 100) + "\n"},
			[]string{strings.Repeat("x", 500) + " … (cut)"}, "T #1 " + strings.Repeat("x", 8189) + "*** … (cut)\n"},
		{"a secret where reading ends", []string{strings.Repeat("x", 12285) + "SECRET" + strings.Repeat("y", 100) + "\n"},
			[]string{strings.Repeat("x", 500) + " … (cut)"}, "T #1 " + strings.Repeat("x", 8192) + " … (cut)\n"},
		{"secrets that make a long line shorter", []string{strings.Repeat("SECRET", 2047) + "SEC" + "RET\n"},
			[]string{strings.Repeat("***", 166) + "** … (cut)"}, "T #1 " + strings.Repeat("*", 6144) + "\n"},
		{"secret", []string{"token=SECRET\n"}, []string{"token=***"}, "T #1 token=***\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			d := childlog.NewFolder(dir, childlog.Options{Now: newClock().now, Scrub: func(line []byte) []byte {
				return bytes.ReplaceAll(line, []byte("SECRET"), []byte("***"))
			}})
			l := d.Open("s", "#1")
			for _, w := range c.writes {
				write(t, l, []byte(w))
			}
			l.Finish()
			l.Close()
			l.Close()
			if got := l.Last(); strings.Join(got, "\n") != strings.Join(c.last, "\n") {
				t.Errorf("last lines %q, want %q", got, c.last)
			}
			want := strings.ReplaceAll(c.file, "T ", "2026-01-02T03:04:05.000Z ")
			if got := read(t, d.Path("s")); got != want {
				t.Errorf("file %q, want %q", got, want)
			}
		})
	}
}

// A line whose rest is missing ends before a secret that nobody could recognize.
func TestLinesThatAreCut(t *testing.T) {
	dir := t.TempDir()
	d := childlog.NewFolder(dir, childlog.Options{Now: newClock().now, Scrub: func(line []byte) []byte {
		return bytes.ReplaceAll(line, []byte("SECRET"), []byte("***"))
	}})
	l := d.Open("s", "")
	defer l.Close()
	for _, c := range []struct {
		text string
		cut  bool
		want string
	}{
		{"a SECRET", false, "a ***"},
		{"a SEC", true, " … (cut)"},
		{strings.Repeat("x", 4093) + "SECRET" + strings.Repeat("y", 4093) + "SEC", true, strings.Repeat("x", 4093) + "*** … (cut)"},
		{strings.Repeat("x", 8189) + "SECRET" + strings.Repeat("y", 4090) + "SECRET", false, strings.Repeat("x", 8189) + "*** … (cut)"},
	} {
		before := ""
		if _, err := os.Stat(d.Path("s")); err == nil {
			before = read(t, d.Path("s"))
		}
		l.Line("", []byte(c.text), c.cut)
		if got := strings.TrimPrefix(read(t, d.Path("s")), before); got != "2026-01-02T03:04:05.000Z "+c.want+"\n" {
			t.Errorf("%.20q… is written as %q", c.text, got)
		}
	}
}

func TestLastKeepsTwenty(t *testing.T) {
	l := childlog.NewFolder("", childlog.Options{}).Open("s", "")
	if l.Last() != nil {
		t.Error("lines before the first")
	}
	for i := range 47 {
		write(t, l, fmt.Appendf(nil, "line %d\n", i))
	}
	last := l.Last()
	if len(last) != 20 || last[0] != "line 27" || last[19] != "line 46" {
		t.Errorf("last lines %q", last)
	}
}

// TestSilent: a child that says nothing leaves no file and no folder.
func TestSilent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	l := childlog.NewFolder(dir, childlog.Options{}).Open("s", "")
	l.Finish()
	l.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder exists: %v", err)
	}
}

// TestRotation: three files of at most 1 MiB, the newest lines in the first.
func TestRotation(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	d := childlog.NewFolder(dir, childlog.Options{Now: c.now})
	l := d.Open("s", "")
	block := []byte(strings.Repeat(strings.Repeat("r", 99)+"\n", 4000))
	for i := range 12 {
		write(t, l, fmt.Appendf(bytes.Clone(block), "mark %d\n", i))
		c.pass(time.Second)
	}
	l.Close()
	for i, name := range []string{"s.log", "s.log.1", "s.log.2"} {
		text := read(t, filepath.Join(dir, name))
		if len(text) > 1<<20 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
		if want := fmt.Sprintf("mark %d", 11-2*i); !strings.Contains(text, want) {
			t.Errorf("%s does not hold %q", name, want)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 4 {
		t.Errorf("files %v, want three and a lock", files)
	}
	l = d.Open("s", "")
	write(t, l, []byte("continued\n"))
	l.Close()
	if text := read(t, d.Path("s")); !strings.Contains(text, "mark 11") || !strings.HasSuffix(text, "continued\n") {
		t.Error("a second log of the server did not continue the file")
	}
}

// TestTwoHosts: hosts that share a folder turn a server's file over together, and
// both go on in the new one, where who follows the log sees them.
func TestTwoHosts(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	var logs [2]*childlog.Log
	for i := range logs {
		logs[i] = childlog.NewFolder(dir, childlog.Options{Now: c.now}).Open("s", "")
		t.Cleanup(logs[i].Close)
	}
	block := []byte(strings.Repeat(strings.Repeat("r", 99)+"\n", 4000))
	for i := range 12 {
		write(t, logs[i%2], fmt.Appendf(bytes.Clone(block), "mark %d\n", i))
		c.pass(time.Second)
	}
	for i, name := range []string{"s.log", "s.log.1", "s.log.2"} {
		text := read(t, filepath.Join(dir, name))
		if len(text) > 1<<20 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
		for n := 10 - 2*i; n < 12-2*i; n++ {
			if want := fmt.Sprintf("mark %d\n", n); !strings.Contains(text, want) {
				t.Errorf("%s does not hold %q", name, want)
			}
		}
	}
}

// TestFlood: what comes too fast is dropped, counted, and named afterwards.
func TestFlood(t *testing.T) {
	c := newClock()
	d := childlog.NewFolder(t.TempDir(), childlog.Options{Now: c.now})
	l := d.Open("s", "")
	block := []byte(strings.Repeat(strings.Repeat("f", 99)+"\n", 300))
	for range 3000 { // 90 MB in no time
		write(t, l, block)
	}
	write(t, l, []byte("the end of it\n"))
	c.pass(time.Second)
	write(t, l, []byte("afterwards\n"))
	l.Close()
	last := l.Last()
	if last[18] != "the end of it" || last[19] != "afterwards" {
		t.Errorf("last lines %q", last)
	}
	text := read(t, d.Path("s"))
	if len(text) > 1<<20 || !strings.Contains(text, "afterwards") || !strings.Contains(text, " lines (") {
		t.Errorf("file of %d bytes ends in %q", len(text), text[max(0, len(text)-300):])
	}
}

// TestUnwritable: nothing fails, the lines in memory are kept, and the file is
// written once it can be.
func TestUnwritable(t *testing.T) {
	base, c := t.TempDir(), newClock()
	dir := filepath.Join(base, "logs")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file in the folder's place
		t.Fatal(err)
	}
	d := childlog.NewFolder(dir, childlog.Options{Now: c.now})
	l := d.Open("s", "")
	write(t, l, []byte("lost\n"))
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	write(t, l, []byte("too early\n"))
	if _, err := os.Stat(dir); err == nil {
		t.Error("the file was tried again at once")
	}
	c.pass(time.Minute)
	write(t, l, []byte("well again\n"))
	l.Close()
	if text := read(t, d.Path("s")); !strings.Contains(text, "2 lines (") || !strings.HasSuffix(text, "well again\n") {
		t.Errorf("file %q", text)
	}
	if last := l.Last(); strings.Join(last, "|") != "lost|too early|well again" {
		t.Errorf("last lines %q", last)
	}
}

// TestManyServers: more servers than descriptors are allowed, with instances
// that share a file, from many goroutines.
func TestManyServers(t *testing.T) {
	d := childlog.NewFolder(t.TempDir(), childlog.Options{})
	before := openFiles(t)
	var all sync.WaitGroup
	logs := make([]*childlog.Log, 200)
	for i := range logs {
		logs[i] = d.Open(fmt.Sprintf("server-%d", i/2), fmt.Sprintf("#%d", i%2))
		all.Go(func() {
			for n := range 20 {
				_, _ = logs[i].Write(fmt.Appendf(nil, "line %d of %d\n", n, i))
				logs[i].Note([]byte("a\nnote"))
			}
		})
	}
	all.Wait()
	if more := openFiles(t) - before; more > 70 {
		t.Errorf("%d descriptors for 100 files", more)
	}
	for _, l := range logs {
		l.Close()
	}
	for i := range 100 {
		text := read(t, d.Path(fmt.Sprintf("server-%d", i)))
		if n := strings.Count(text, "\n"); n != 80 {
			t.Fatalf("server %d has %d lines, want 80", i, n)
		}
	}
	if more := openFiles(t) - before; more > 2 {
		t.Errorf("%d descriptors are left", more)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	dir := "/dev/fd"
	if runtime.GOOS == "windows" {
		return 0
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func BenchmarkFlood(b *testing.B) {
	secrets := scrub.New(nil)
	l := childlog.NewFolder(b.TempDir(), childlog.Options{
		NewScrub: func() childlog.Scrubber { return scrub.NewStream(func() *scrub.Set { return secrets }) },
	}).Open("s", "")
	defer l.Close()
	block := []byte(strings.Repeat(strings.Repeat("f", 99)+"\n", 160))
	b.SetBytes(int64(len(block)))
	for b.Loop() {
		_, _ = l.Write(block)
	}
}
