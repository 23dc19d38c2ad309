package sandbox

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// TestPackedFrames has asks and values pass as they are, and refuses what a
// worker that was taken over may send in their place.
func TestPackedFrames(t *testing.T) {
	whole := &Frame{Run: 1<<63 + 1, Ask: &Ask{
		ID: 1<<63 + 2, Kind: AskCall, Server: "my server/2", Tool: "größe", Args: []byte(`{"a":"\u2028<&>"}`), TimeoutMs: 86400000, Raw: true,
	}}
	read := func(t *testing.T, data []byte) (*Frame, error) {
		t.Helper()
		return ReadFrame(bytes.NewReader(data), func() int64 { return MaxFrame })
	}
	write := func(t *testing.T, f *Frame) []byte {
		t.Helper()
		data, err := EncodeFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, f := range map[string]*Frame{
		"an ask":     whole,
		"a value":    {Run: 7, Reply: &Reply{ID: 8, Value: []byte(` [1, "<"] `)}},
		"an error":   {Run: 7, Reply: &Reply{ID: 8, Err: &CallError{Code: "X", Message: "m"}}},
		"nothing":    {Run: 7, Reply: &Reply{ID: 8}},
		"a long one": {Run: 7, Reply: &Reply{ID: 8, Value: []byte(`"` + strings.Repeat("x", 3*frameStart) + `"`)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, write(t, f))
			if err != nil || !reflect.DeepEqual(got, f) {
				t.Errorf("%+v, %v, want %+v", got, err, f)
			}
		})
	}
	broken := func(change func(*Ask)) *Frame {
		a := *whole.Ask
		change(&a)
		return &Frame{Run: 1, Ask: &a}
	}
	for name, f := range map[string]*Frame{
		"no kind":         broken(func(a *Ask) { a.Kind = 0 }),
		"no arguments":    broken(func(a *Ask) { a.Args = nil }),
		"half an object":  broken(func(a *Ask) { a.Args = []byte(`{"a":`) }),
		"two objects":     broken(func(a *Ask) { a.Args = []byte(`{}{}`) }),
		"another request": broken(func(a *Ask) { a.Args = []byte("{}\n{\"jsonrpc\":\"2.0\"}") }),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := read(t, write(t, f)); err == nil {
				t.Errorf("it was read: %+v", got)
			}
		})
	}
	got, err := read(t, write(t, broken(func(a *Ask) { a.Server, a.Tool = "a\xff", "\xc3" })))
	if err != nil || got.Ask.Server != "a\ufffd" || got.Ask.Tool != "\ufffd" {
		t.Errorf("names that are no text: %+v, %v", got, err)
	}
	// Every length of its parts that does not fit, and every end that is missing.
	data := write(t, whole)
	for n := range len(data) - headBytes {
		cut := append([]byte{0, 0, byte(n >> 8), byte(n)}, data[headBytes:headBytes+n]...)
		if got, err := read(t, cut); err == nil {
			t.Errorf("%d bytes of it were read: %+v", n, got)
		}
	}
	for at := range 8 {
		long := bytes.Clone(data)
		long[headBytes+27+at] = 0xff
		if got, err := read(t, long); err == nil && len(got.Ask.Server)+len(got.Ask.Tool) > len(data) {
			t.Errorf("a length is believed: %+v", got)
		}
	}
}
