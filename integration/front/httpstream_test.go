package front

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLineThatIsKeptIsNotReused: a sink keeps a large part as it is, so that the buffer
// behind it serves no other line.
func TestLineThatIsKeptIsNotReused(t *testing.T) {
	line := func(s *stream, of string) {
		withLine(func(dst []byte) []byte {
			dst = append(dst, strings.Repeat(of, largePart)...)
			_ = s.Answer(dst)
			return dst
		})
	}
	for range 20 { // a pool does not always keep
		first := newStream(1)
		line(first, "a")
		line(newStream(1), "b")
		events, _, _ := first.next(0)
		if got := string(bytes.Join(events[0].parts, nil)); strings.Trim(got, "a") != "" {
			t.Fatalf("a line of a's has become %.10s", got)
		}
	}
}

// What a stream gives out is what was written to it, in order, from any event
// on; a number that never was loses nothing that comes later.
func TestStreamIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStream(1)
		s.keep = true
		var all []string
		at := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				text := fmt.Sprint(len(all)) + strings.Repeat("x", rapid.IntRange(0, 3*largePart).Draw(t, "size"))
				cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
				if err := s.Write([]byte(text[:cut]), []byte(text[cut:])); err != nil {
					t.Skip("full")
				}
				all = append(all, text)
			},
			"read": func(t *rapid.T) {
				events, first, over := s.next(at)
				if over || first != at+1 && len(events) > 0 {
					t.Fatalf("first %d after %d, over %v", first, at, over)
				}
				for i, e := range events {
					if got := string(bytes.Join(e.parts, nil)); got != all[int(first)-1+i] || e.size != len(got) {
						t.Fatalf("event %d is another", int(first)+i)
					}
				}
				at += uint64(len(events))
				s.written(at)
			},
			"read from somewhere": func(t *rapid.T) {
				from := rapid.Uint64().Draw(t, "from")
				events, first, _ := s.next(from)
				if first < 1 || int(first)-1+len(events) != len(all) {
					t.Fatalf("%d events from %d on; there are %d", len(events), first, len(all))
				}
			},
		})
		if err := s.Answer([]byte("end")); err != nil {
			t.Fatal(err)
		}
		if err := s.Write([]byte("late")); err == nil {
			t.Fatal("something follows the answer")
		}
		events, _, over := s.next(at)
		if !over || len(events) == 0 || !events[len(events)-1].answer {
			t.Fatalf("the end: %d events, over %v", len(events), over)
		}
	})
}

func TestEventCode(t *testing.T) {
	for _, c := range []struct {
		line string
		code int
	}{
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}`, -32601},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":7}}`, 7},
		{`{"jsonrpc":"2.0","id":1,"result":{"a":{},"error":{"code":-32601}}}`, 0},
		{`{"jsonrpc":"2.0","id":1,"error":{"message":"x","code":7}}`, 0},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":`, 0},
		{`{"jsonrpc":"2.0","id":2,"error":{"code":7}}`, 0},
	} {
		if got := (&event{parts: [][]byte{[]byte(c.line)}}).code([]byte("1")); got != c.code {
			t.Errorf("%s: %d", c.line, got)
		}
	}
	if (&event{}).code(nil) != 0 {
		t.Error("nothing has a code")
	}
}
