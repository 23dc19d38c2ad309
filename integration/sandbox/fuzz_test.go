package sandbox_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/sandbox"
)

func frame(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// FuzzFrames reads whatever a worker that was taken over may send: nothing that
// is read may be larger than the limit, and what was read can be written again.
func FuzzFrames(f *testing.F) {
	for _, fr := range []*sandbox.Frame{
		{Run: 1, Ask: &sandbox.Ask{ID: 1, Kind: sandbox.AskCall, Server: "a", Tool: "b", Args: []byte(`{"x":1}`), TimeoutMs: 5, Raw: true}},
		{Run: 1, Ask: &sandbox.Ask{ID: 1, Args: []byte("{}")}},
		{Run: 1, Reply: &sandbox.Reply{ID: 2, Value: []byte("[1]")}},
	} {
		data, err := sandbox.EncodeFrame(fr)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-3])
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(data)-7)), data[4:len(data)-3]...))
	}
	f.Add(frame(`{"run":1,"outcome":{"value":1,"failure":{"kind":"timeout"}}}`))
	f.Add(frame(`{"ready":{}}`))
	f.Add(frame("\x01" + strings.Repeat("\xff", 40)))
	f.Add(frame(`{"run":1,"outcome":{"failure":{"message":"x"}}}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 9, '{'})
	f.Add([]byte{0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 16
		r := bytes.NewReader(data)
		for {
			before := r.Len()
			got, err := sandbox.ReadFrame(r, func() int64 { return limit })
			if errors.Is(err, io.EOF) && before != 0 {
				t.Fatalf("%d bytes were taken for the end", before)
			}
			if err != nil {
				return
			}
			if before-r.Len() > limit+4 {
				t.Fatalf("a frame of %d bytes", before-r.Len())
			}
			again, err := sandbox.EncodeFrame(got)
			if err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			back, err := sandbox.ReadFrame(bytes.NewReader(again), func() int64 { return sandbox.MaxFrame })
			if err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			if !reflect.DeepEqual(got.Ask, back.Ask) {
				t.Fatalf("the ask %+v was read back as %+v", got.Ask, back.Ask)
			}
		}
	})
}
