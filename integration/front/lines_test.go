package front

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

func TestLineReader(t *testing.T) {
	for _, size := range []int{0, 1, 100, largeLine - 1, largeLine, largeLine + 1, 3*largeLine + 7, 1 << 20} {
		for _, wrap := range []func(io.Reader) io.Reader{
			func(r io.Reader) io.Reader { return r },
			iotest.HalfReader,
			iotest.DataErrReader,
		} {
			long := strings.Repeat("x", size)
			want := []string{"first", long, "", "b" + long, "end without a line feed"}
			large := 0
			l := newLineReader(wrap(strings.NewReader(strings.Join(want, "\n"))), MaxLine, func() { large++ })
			for i, w := range want {
				line, err := l.next()
				if err != nil || string(line) != w {
					t.Fatalf("size %d, line %d: %d bytes, %v, want %d bytes", size, i, len(line), err, len(w))
				}
			}
			if _, err := l.next(); !errors.Is(err, io.EOF) {
				t.Fatalf("at the end: %v", err)
			}
			if (size+1 >= largeLine) != (large == 1) {
				t.Errorf("size %d: told %d times of a large line", size, large)
			}
		}
	}
}

func TestLineReaderAhead(t *testing.T) {
	l := newLineReader(strings.NewReader("a\nb\n\nc"), MaxLine, nil)
	for i, want := range []int{2, 1, 0, 0} {
		if _, err := l.next(); err != nil || !l.ahead(want) || l.ahead(want+1) {
			t.Errorf("behind line %d: %v; %d whole lines are not what is ahead", i+1, err, want)
		}
	}
}

// endsKept says whether err is of a line that is too long and has kept its ends.
func endsKept(err error) bool {
	var long *tooLongError
	return errors.As(err, &long) && bytes.HasPrefix(long.head, []byte("heado")) && bytes.HasSuffix(long.tail, []byte("otail")) &&
		max(len(long.head), len(long.tail)) <= jsonrpc.IDWindow
}

func TestLineReaderLimit(t *testing.T) {
	for _, limit := range []int{10, largeLine, 5 * largeLine} {
		for _, over := range []int{1, 2, largeLine, 10 * largeLine} {
			var in bytes.Buffer
			exact, tooLong := strings.Repeat("e", limit), "head"+strings.Repeat("o", limit+over-len("headtail"))+"tail"
			for range 3 {
				in.WriteString(exact + "\n" + tooLong + "\nok\n")
			}
			in.WriteString(tooLong)
			l := newLineReader(iotest.HalfReader(&in), limit, nil)
			for i := range 3 {
				if line, err := l.next(); err != nil || string(line) != exact {
					t.Fatalf("max %d, round %d: %d bytes, %v", limit, i, len(line), err)
				}
				if _, err := l.next(); !endsKept(err) {
					t.Fatalf("max %d over %d, round %d: %v", limit, over, i, err)
				}
				if line, err := l.next(); err != nil || string(line) != "ok" {
					t.Fatalf("max %d, round %d: %q, %v", limit, i, line, err)
				}
			}
			if _, err := l.next(); !endsKept(err) {
				t.Fatalf("max %d, too long at the end: %v", limit, err)
			}
			if _, err := l.next(); !errors.Is(err, io.EOF) {
				t.Fatalf("max %d, end: %v", limit, err)
			}
		}
	}
}

func TestLineReaderError(t *testing.T) {
	l := newLineReader(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc\n"))), MaxLine, nil)
	if line, err := l.next(); err != nil || string(line) != "a" {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := l.next(); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("got %v", err)
	}
}
