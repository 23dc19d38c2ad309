package remote

import (
	"bytes"
	"errors"
	"io"
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
		{"id with a zero", "id: a\x00\ndata: x\n\n", []ev{{"", "x", "", false}}},
		{"long line", "data: " + strings.Repeat("y", 200) + "\n\ndata: x\n\n", []ev{{"", "", "", true}, {"", "x", "", false}}},
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

func TestRetryField(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"retry: 1500": 1500 * time.Millisecond, "retry: -1": 0, "retry: x": 0, "retry: 999999999999": 0, "retry: 0": 0,
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
