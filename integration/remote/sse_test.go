package remote

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestEventReader(t *testing.T) {
	t.Parallel()
	type ev struct {
		name, data, id string
		over           bool
	}
	for _, tt := range []struct {
		name, text string
		want       []ev
	}{
		{"plain", "data: x\n\n", []ev{{"", "x", "", false}}},
		{"without blank", "data:x\n\n", []ev{{"", "x", "", false}}},
		{"two blanks", "data:  x\n\n", []ev{{"", " x", "", false}}},
		{"lines", "data: a\ndata\ndata: b\n\n", []ev{{"", "a\n\nb", "", false}}},
		{"CRLF", "event: e\r\ndata: x\r\nid: 5\r\n\r\n", []ev{{"e", "x", "5", false}}},
		{"the id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []ev{{"", "a", "1", false}, {"", "b", "1", false}, {"", "c", "", false}}},
		{"no data is no event", "event: e\nid: 9\n\ndata: x\n\n", []ev{{"", "x", "9", false}}},
		{"comments and unknown fields", ": c\nfoo: bar\nx\ndata: x\n\n", []ev{{"", "x", "", false}}},
		{"cut off", "data: a\n\ndata: b\n", []ev{{"", "a", "", false}}},
		{"a byte order mark", "\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\ndata: \xef\xbb\xbfc\n\n", []ev{{"", "a", "", false}, {"", "\xef\xbb\xbfc", "", false}}},
		{"a byte order mark alone", "\xef\xbb\xbf\ndata: a\n\n", []ev{{"", "a", "", false}}},
		{"id with a zero", "id: a\x00\ndata: x\n\n", []ev{{"", "x", "", false}}},
		{"long line", "data: " + strings.Repeat("y", 200) + "\n\ndata: x\n\n", []ev{{"", "", "", true}, {"", "x", "", false}}},
		{"long line among others", "id: 1\ndata: a\ndata: " + strings.Repeat("y", 20000) + "\ndata: b\nid: 2\n\ndata: x\n\n", []ev{{"", "", "1", true}, {"", "x", "2", false}}},
		{"long comment", ": " + strings.Repeat("y", 20000) + "\ndata: x\n\n", []ev{{"", "x", "", false}}},
		{"many lines", strings.Repeat("data: 123456789\n", 20) + "\ndata: x\n\n", []ev{{"", "", "", true}, {"", "x", "", false}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text))} {
				e := newEventReader(r, 100)
				for _, want := range tt.want {
					got, err := e.next()
					if err != nil || (ev{got.name, string(got.data), got.id, got.over}) != want {
						t.Fatalf("%+v %v, want %+v", got, err, want)
					}
				}
				if got, err := e.next(); !errors.Is(err, io.EOF) {
					t.Errorf("%+v %v", got, err)
				}
			}
		})
	}
}

// A stream goes on from the last event that came whole, or was too large to.
func TestPlaceInAStream(t *testing.T) {
	t.Parallel()
	big := "data: " + strings.Repeat("y", 200)
	for _, tt := range []struct{ name, text, want string }{
		{"whole", "id: 1\ndata: a\n\n", "1"},
		{"without data", "id: 1\n\n", "1"},
		{"cut off", "id: 1\ndata: a\n\nid: 2\ndata: b", "1"},
		{"cut off before its end", "id: 1\ndata: a\n\nid: 2\ndata: b\n", "1"},
		{"cut off without data", "id: 1\ndata: a\n\nid: 2\n", "1"},
		{"too large", "id: 1\ndata: a\n\nid: 2\n" + big + "\n", "2"},
		{"too large, before its id", "id: 1\ndata: a\n\n" + big + "\nid: 2\n", "1"},
		{"too large, whole", "id: 1\ndata: a\n\n" + big + "\nid: 2\n\n", "2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEventReader(strings.NewReader(tt.text), 100)
			for {
				if _, err := e.next(); err != nil {
					break
				}
			}
			if e.id != tt.want {
				t.Errorf("it goes on from %q, want %q", e.id, tt.want)
			}
			// What was cut off is forgotten with the part of the stream in which it was.
			e.goOn(strings.NewReader("\n"))
			if _, err := e.next(); !errors.Is(err, io.EOF) || e.id != tt.want {
				t.Errorf("%v, then it goes on from %q, want %q", err, e.id, tt.want)
			}
			// Each part may begin with a byte order mark.
			e.goOn(strings.NewReader("\xef\xbb\xbfdata: c\n\n"))
			if ev, err := e.next(); err != nil || string(ev.data) != "c" {
				t.Errorf("%+v %v", ev, err)
			}
		})
	}
}

func TestRetryField(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"retry: 1500": 1500 * time.Millisecond, "retry: -1": 0, "retry: x": 0, "retry: 999999999999": longestWait, "retry: 99999999999999999999": longestWait, "retry: 0": 0,
	} {
		e := newEventReader(strings.NewReader(text+"\ndata: x\n\n"), 100)
		if _, err := e.next(); err != nil || e.retry != want {
			t.Errorf("%s: %v %v", text, e.retry, err)
		}
	}
}

// Whatever comes, an event holds no more than it may, and the reader ends.
func FuzzEventReader(f *testing.F) {
	f.Add([]byte("event: e\ndata: x\nid: 1\nretry: 2\n\n"))
	f.Add([]byte("data\r\n\r\n"))
	f.Add(bytes.Repeat([]byte("data: xxxx\n"), 100))
	f.Fuzz(func(t *testing.T, text []byte) {
		const most = 64
		e := newEventReader(bytes.NewReader(text), most)
		for {
			ev, err := e.next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return
			}
			if len(ev.data) > 2*most || ev.over && ev.data != nil {
				t.Fatalf("%d bytes, over %v", len(ev.data), ev.over)
			}
		}
	})
}

// A line that is longer than what is read at once comes out whole, wherever its
// end falls.
func TestLongLines(t *testing.T) {
	t.Parallel()
	for n := 4060; n < 4110; n++ {
		text := "data: " + strings.Repeat("y", n) + "\r\rz"
		e := newEventReader(strings.NewReader("id: 1\r\n"+text+"\r\ndata: b\r\n\r\n: "+strings.Repeat("c", 9000)+"\nid: "+strings.Repeat("9", 5000)+"\ndata: x\n\n"), 1<<20)
		first, err := e.next()
		if err != nil || string(first.data) != text[6:]+"\nb" || first.id != "1" {
			t.Fatalf("%d: %d bytes, %v", n, len(first.data), err)
		}
		if second, err := e.next(); err != nil || string(second.data) != "x" || second.id != "1" {
			t.Fatalf("%d: %+v, %v", n, second, err)
		}
	}
}

// endless is a line without an end.
type endless struct{ begun bool }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'A'
	}
	if !e.begun {
		e.begun = true
		return copy(p, "data: "), nil
	}
	return len(p), nil
}

// What is too large costs no more memory than what is just small enough, and that
// no more than twice its size.
func TestMemoryOfLargeMessages(t *testing.T) {
	const limit = 8 << 20
	event := func(r io.Reader) func() error {
		return func() error {
			ev, err := newEventReader(r, limit).next()
			if err == nil && len(ev.data) != limit {
				err = errors.New("the event is not whole")
			}
			return err
		}
	}
	line := "data: " + strings.Repeat("x", limit) + "\n\n"
	for name, read := range map[string]func() error{
		"an event": event(strings.NewReader(line)),
		"an endless line": func() error {
			ev, err := newEventReader(&endless{}, limit).next()
			if err == nil && ev.over {
				err = errTooLarge
			}
			return err
		},
		"a body": func() error {
			b, err := readWhole(strings.NewReader(line), len(line))
			if err == nil && string(b) != line {
				err = errors.New("the body is not whole")
			}
			return err
		},
		"an endless body": func() error {
			_, err := readWhole(&endless{}, limit)
			return err
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		if endless := strings.Contains(name, "endless"); endless != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 2*limit+3*lastPart {
			t.Errorf("%s took %d MiB in all", name, used>>20)
		}
	}
}
