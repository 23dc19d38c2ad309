package child

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func itoa(i int) string { return strconv.Itoa(i) }

// found is a sink that keeps copies and the originals, to see that no
// original is written to later.
type found struct {
	lines, copies [][]byte
	noises        []string
	larges        []string
	ends          []string
	grew          int
}

func (f *found) line(l []byte, _ bool) {
	f.lines = append(f.lines, l)
	f.copies = append(f.copies, bytes.Clone(l))
}
func (f *found) noise(p []byte, cut bool) {
	f.noises = append(f.noises, string(p)+strconv.FormatBool(cut))
}
func (f *found) tooLarge(p []byte) { f.larges = append(f.larges, string(p)) }
func (f *found) skipped(p []byte)  { f.ends = append(f.ends, string(p)) }
func (f *found) grown()            { f.grew++ }

func feed(s *splitter, stream []byte, chunk func() int) {
	for len(stream) > 0 {
		s.idle()
		n := copy(s.room(), stream[:min(len(stream), max(1, chunk()))])
		stream = stream[n:]
		s.took(n)
	}
	s.finish()
}

func TestSplitterProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []string
		var stream []byte
		larges := 0
		var ends []string
		const maxLine = 300_000
		for range rapid.IntRange(0, 12).Draw(t, "lines") {
			size := rapid.OneOf(rapid.IntRange(2, 200), rapid.IntRange(30_000, 70_000), rapid.IntRange(100_000, maxLine+50_000)).Draw(t, "size")
			line := "{" + strings.Repeat(string(rapid.ByteRange('a', 'z').Draw(t, "fill")), size-2) + "}"
			if size > maxLine {
				larges++
				ends = append(ends, line[size-3000:])
			} else {
				want = append(want, line)
			}
			stream = append(stream, line...)
			stream = append(stream, rapid.SampledFrom([]string{"\n", "\r\n", "\n\n", " \n"}).Draw(t, "end")...)
		}
		f := new(found)
		s := &splitter{sink: f, max: maxLine}
		feed(s, stream, rapid.SampledFrom([]func() int{
			func() int { return 1 << 20 },
			func() int { return 4096 },
			func() int { return 65_536 },
		}).Draw(t, "chunk"))
		if len(f.lines) != len(want) || len(f.larges) != larges {
			t.Fatalf("%d lines and %d too large, want %d and %d", len(f.lines), len(f.larges), len(want), larges)
		}
		for i, end := range ends {
			if got := strings.TrimRight(f.ends[i], " \r"); len(f.ends[i]) > prefixSize || !strings.HasSuffix(got, end) {
				t.Fatalf("the end of large line %d is %d bytes, or not its end", i, len(f.ends[i]))
			}
		}
		if len(f.ends) != larges {
			t.Fatalf("%d ends of %d large lines", len(f.ends), larges)
		}
		for i := range want {
			if string(f.copies[i]) != want[i] || string(f.lines[i]) != want[i] {
				t.Fatalf("line %d of %d bytes is wrong or was written to", i, len(want[i]))
			}
		}
		if s.buf != nil {
			t.Fatal("a buffer is kept after the end")
		}
	})
}

func TestSplitter(t *testing.T) {
	long := strings.Repeat("n", 9000)
	for _, c := range []struct {
		name, stream         string
		lines, noise, larges int
	}{
		{"empty", "", 0, 0, 0},
		{"blank lines", "\n\r\n  \n", 0, 0, 0},
		{"byte order mark", "\xef\xbb\xbf{}\n", 1, 0, 0},
		{"no end", "{}", 1, 0, 0},
		{"noise", "x\n{}\ny\n", 1, 2, 0},
		{"long noise is told once", long + long + "\n{}\n", 1, 1, 0},
		{"too long", "{" + long + "}\n{}\n", 1, 0, 1},
		{"too long without an end", "{" + long, 0, 0, 1},
		{"blanks only", strings.Repeat(" ", 9000) + "\n{}\n", 1, 0, 0},
		{"blanks without an end", strings.Repeat(" ", 90_000), 0, 0, 0},
		{"blanks in front", strings.Repeat(" ", 90_000) + "{}\n{}\n", 2, 0, 0},
		{"blanks in front of noise", strings.Repeat("\t", 90_000) + "x\n{}\n", 1, 1, 0},
		{"blanks in front of what is too long", strings.Repeat(" ", 90_000) + "{" + long + "}\n{}\n", 1, 0, 1},
	} {
		for _, chunk := range []int{1, 7, 4096, 1 << 20} {
			f := new(found)
			feed(&splitter{sink: f, max: 8000}, []byte(c.stream), func() int { return chunk })
			if len(f.lines) != c.lines || len(f.noises) != c.noise || len(f.larges) != c.larges || len(f.ends) != c.larges {
				t.Errorf("%s in chunks of %d: %d lines, %d noise, %d too large", c.name, chunk, len(f.lines), len(f.noises), len(f.larges))
			}
		}
	}
}

// TestIdle: between messages no buffer is held, not even after large ones.
func TestIdle(t *testing.T) {
	f := new(found)
	s := &splitter{sink: f, max: 1 << 20}
	stream := []byte("{" + strings.Repeat("a", 500_000) + "}\n")
	for len(stream) > 0 {
		n := copy(s.room(), stream)
		stream = stream[n:]
		s.took(n)
	}
	s.idle()
	if s.buf != nil || len(f.lines) != 1 || f.grew == 0 {
		t.Errorf("buffer %d bytes, %d lines, grown %d times", len(s.buf), len(f.lines), f.grew)
	}
}

// Who sends a long line sends the next one as well: that gets its buffer at once, and
// none that is much larger than it.
func TestLongLinesInARow(t *testing.T) {
	f := new(found)
	s := &splitter{sink: f, max: 4 << 20}
	line := []byte("{" + strings.Repeat("x", 1<<20) + "}\n")
	whole := func() int { return len(line) }
	feed(s, line, whole)
	first := f.grew
	feed(s, line, whole)
	if second := f.grew - first; first < 2 || second != 1 {
		t.Errorf("the buffer was replaced %d times for the first line, %d times for the second", first, second)
	}
	if len(f.lines) != 2 || !bytes.Equal(f.lines[0], f.lines[1]) {
		t.Fatalf("%d lines, or not the same", len(f.lines))
	}
	feed(s, []byte("{"+strings.Repeat("y", 100_000)+"}\n"), whole)
	if got := len(f.lines[2]); got != 100_002 {
		t.Errorf("a shorter line has %d bytes", got)
	}
}
