package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// forge appends an entry that follows the last one rightly.
func forge(t *testing.T, path string, kind Kind) {
	t.Helper()
	e, err := findEnd(path)
	if err != nil {
		t.Fatal(err)
	}
	enc := newEncoder(&Options{PID: 1}, nil)
	line, _, err := enc.line(nil, &Entry{Kind: kind}, e.last.Seq+1, e.last.Hash)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, append(read(t, path), line...))
}

func TestTamperedChainsAreBroken(t *testing.T) {
	edit := func(do func(rows [][]byte) [][]byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			write(t, path, bytes.Join(do(rows(read(t, path))), nil))
		}
	}
	remove := func(suffix string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.Remove(path + suffix); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		tamper func(t *testing.T, path string)
		kind   BreakKind
		why    string
	}{
		{"a line is gone", edit(func(r [][]byte) [][]byte { return slices.Delete(r, 2, 3) }), BreakMissing, ""},
		{"three lines are gone", edit(func(r [][]byte) [][]byte { return slices.Delete(r, 2, 5) }), BreakMissing, ""},
		{"two lines are swapped", edit(func(r [][]byte) [][]byte { r[2], r[3] = r[3], r[2]; return r }), BreakReordered, "stands after"},
		{"a line stands twice", edit(func(r [][]byte) [][]byte { return slices.Insert(r, 3, r[2]) }), BreakReordered, "stands after"},
		{"the last line is gone", edit(func(r [][]byte) [][]byte { return r[:len(r)-1] }), BreakTruncated, "missing at the end"},
		{"half of the last line is gone", edit(func(r [][]byte) [][]byte { r[len(r)-1] = r[len(r)-1][:50]; return r }), BreakTruncated, ""},
		{"the last newline is gone", func(t *testing.T, path string) { write(t, path, bytes.TrimSuffix(read(t, path), []byte("\n"))) }, BreakTruncated, "fewer bytes"},
		{"the file is empty", func(t *testing.T, path string) { write(t, path, nil) }, BreakTruncated, ""},
		{"a server's name", edit(func(r [][]byte) [][]byte {
			r[2] = bytes.Replace(r[2], []byte(`"files"`), []byte(`"filez"`), 1)
			return r
		}), BreakChanged, "its hash"},
		{"a line that is no entry", edit(func(r [][]byte) [][]byte { return slices.Insert(r, 3, []byte("hello\n")) }), BreakChanged, "no entry"},
		{"a changed entry with a new hash", edit(func(r [][]byte) [][]byte {
			rec, _, err := parse(bytes.TrimSuffix(r[2], []byte("\n")))
			if err != nil {
				t.Fatal(err)
			}
			r[2], _, _ = newEncoder(&Options{PID: 1}, nil).line(nil, &Entry{Kind: KindCall, Time: rec.Time, Server: "forged"}, rec.Seq, rec.Prev)
			return r
		}), BreakChanged, "does not follow"},
		{"the current file is gone", remove(""), BreakTruncated, "audit.jsonl"},
		{"a rotated file is gone", remove(".000002"), BreakMissing, "audit.jsonl.000002"},
		{"the oldest file is gone", remove(".000001"), BreakMissing, "at the beginning"},
		{"the head is gone", remove(headSuffix), BreakHead, "missing"},
		{"the head is damaged", func(t *testing.T, path string) { write(t, path+headSuffix, []byte("{")) }, BreakHead, "damaged"},
		{"a forged call", func(t *testing.T, path string) { forge(t, path, KindCall) }, BreakForged, "were added"},
		{"a forged start", func(t *testing.T, path string) { forge(t, path, KindStart) }, BreakForged, "were added"},
		{"rubbish at the end", func(t *testing.T, path string) { write(t, path, append(read(t, path), "rubbish"...)) }, BreakChanged, "no entry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := place(t)
			written(t, Options{Path: path, MaxBytes: 5000}, 48)
			if r := whole(t, path); len(r.Files) < 4 || len(rows(read(t, path))) < 7 {
				t.Fatalf("%d files, %d lines in the last: too few for this test", len(r.Files), len(rows(read(t, path))))
			}
			c.tamper(t, path)
			check := func(when string) {
				t.Helper()
				r, err := Verify(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				if r.Whole() {
					t.Fatalf("%s: it is said to be whole", when)
				}
				if when == "at once" && !slices.ContainsFunc(r.Breaks, func(b Break) bool { return b.Kind == c.kind && strings.Contains(b.Why, c.why) }) {
					t.Errorf("breaks %+v, want one that is %s: …%s…", r.Breaks, c.kind, c.why)
				}
			}
			check("at once")
			// The next host must not cover it up.
			written(t, Options{Path: path, MaxBytes: 5000}, 5)
			check("after the next host")
		})
	}
}

// Every byte counts.
func TestEveryFlippedByteIsSeen(t *testing.T) {
	path := place(t)
	written(t, Options{Path: path, MaxBytes: 800}, 2)
	for _, file := range whole(t, path).Files {
		good := read(t, file)
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= []byte{0x01, 0x20}[i%2]
			write(t, file, bad)
			r, err := Verify(t.Context(), path)
			if err != nil || r.Whole() {
				t.Fatalf("%s: byte %d (%q → %q): whole, %v", file, i, good[i], bad[i], err)
			}
		}
		write(t, file, good)
	}
	whole(t, path)
}

// Whoever rewrites everything with its head is shown by a head that was noted.
func TestNotedHead(t *testing.T) {
	path := place(t)
	written(t, Options{Path: path}, 5)
	noted, err := CurrentHead(path)
	if err != nil {
		t.Fatal(err)
	}
	written(t, Options{Path: path}, 5)
	whole(t, path, noted, Head{Hash: noted.Hash})
	for _, text := range []string{noted.String(), noted.String() + "  " + path, " " + noted.String() + "\n"} {
		back, err := ParseHead(text)
		if err != nil || back != noted {
			t.Errorf("ParseHead(%q) = %v, %v", text, back, err)
		}
	}
	for _, file := range []string{path, path + headSuffix} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	written(t, Options{Path: path}, 10)
	whole(t, path)
	if r, err := Verify(t.Context(), path, noted); err != nil || r.Whole() {
		t.Errorf("rewritten: %+v, %v", r.Breaks, err)
	}
	all, err := VerifyAll(t.Context(), path, noted)
	if err != nil || len(all) != 1 || all[0].Whole() {
		t.Errorf("rewritten: %+v, %v", all, err)
	}
	for _, bad := range []string{"", "x", "1:", path, ":" + noted.Hash, "0:" + noted.Hash, strings.ToUpper(noted.Hash), fmt.Sprint(noted.Hash, "0")} {
		if h, err := ParseHead(bad); err == nil {
			t.Errorf("ParseHead(%q) = %v", bad, h)
		}
	}
}

// A head whose entry was rotated away is told from one of a log that was rewritten,
// as far as that can be told: it does not say of which log it is.
func TestNotedHeadOfAnotherHost(t *testing.T) {
	path := place(t)
	first := open(t, Options{Path: path})
	first.Append(call(1))
	second := Options{Path: path, MaxBytes: 4000, MaxFiles: 3}
	written(t, second, 2)
	noted, err := CurrentHead(slot(path, 2))
	if err != nil {
		t.Fatal(err)
	}
	written(t, second, 60)
	shut(t, first)
	why := func(noted Head) string {
		t.Helper()
		all, err := VerifyAll(t.Context(), path, noted)
		if err != nil || len(all) != 2 || all[0].FirstSeq != 1 || all[1].FirstSeq <= noted.Seq {
			t.Fatalf("%+v, %v", all, err)
		}
		if len(all[0].Breaks) != 1 || !all[1].Whole() {
			t.Fatalf("breaks %+v and %+v, want one", all[0].Breaks, all[1].Breaks)
		}
		return all[0].Breaks[0].Why
	}
	for _, h := range []Head{noted, {Hash: noted.Hash}} {
		if got := why(h); !strings.Contains(got, "older than what is kept, or the log was rewritten") {
			t.Errorf("of the head %s of another host is said %q", h, got)
		}
	}
	r, err := Verify(t.Context(), slot(path, 2), noted)
	if err != nil || len(r.Breaks) != 1 || !strings.Contains(r.Breaks[0].Why, "note a later one") {
		t.Errorf("alone: %+v, %v", r.Breaks, err)
	}
	r, err = Verify(t.Context(), path, noted)
	if err != nil || len(r.Breaks) != 1 || !strings.Contains(r.Breaks[0].Why, "which was rewritten") {
		t.Errorf("in the log of the first host: %+v, %v", r.Breaks, err)
	}
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	path := place(t)
	written(t, Options{Path: path}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Verify(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("one chain: %v", err)
	}
	if _, err := VerifyAll(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("all chains: %v", err)
	}
}

// meanwhile is a context that does something when it is asked for the first time: while
// the first line is read.
type meanwhile struct {
	context.Context
	do func()
}

func (m *meanwhile) Err() error {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.Context.Err()
}

// A host that starts while its log is read adds entries, and forges none.
func TestHostStartsWhileItsLogIsRead(t *testing.T) {
	path := place(t)
	written(t, Options{Path: path}, 8)
	starts := func() {
		open(t, Options{Path: path, syncEvery: time.Hour}).Append(call(1)) // the head says no other entry before the host ends
		testkit.Eventually(t, time.Minute, func() error {
			if n := len(rows(read(t, path))); n != 12 {
				return fmt.Errorf("%d lines", n)
			}
			return nil
		})
	}
	r, err := Verify(&meanwhile{t.Context(), starts}, path)
	if err != nil || !r.Whole() || r.Entries != 12 || r.AfterHead != 2 {
		t.Errorf("report %+v, %v", r, err)
	}
}

// A host that is in its first moment, or was killed in it, has damaged nothing.
func TestFileWithoutEntriesAndHead(t *testing.T) {
	path := place(t)
	write(t, path, nil)
	whole(t, path)
	written(t, Options{Path: path}, 1)
	whole(t, path)
}

func TestHeadThatAllowsAnEarlierOne(t *testing.T) {
	closed, opened := &headFile{Seq: 10, Closed: true}, &headFile{Seq: 10}
	for _, c := range []struct {
		name           string
		earlier, later *headFile
		want           bool
	}{
		{"no host", closed, closed, true},
		{"one starts", closed, opened, false},
		{"one has come and gone", closed, &headFile{Seq: 14, Closed: true}, false},
		{"the first one starts", nil, &headFile{}, false},
		{"one writes", opened, &headFile{Seq: 14}, true},
		{"one ends", opened, &headFile{Seq: 14, Closed: true}, true},
	} {
		if got := c.later.allows(c.earlier); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A link in the place of a file is an error and no endless look for it.
func TestLinkThatLeadsNowhere(t *testing.T) {
	path := place(t)
	written(t, Options{Path: path}, 1)
	if err := os.Symlink(path+".nowhere", path+".000001"); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(t.Context(), path); err == nil {
		t.Error("no error")
	}
}
