package sandbox_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/metamcp/metamcp/integration/sandbox"
)

func frame(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// FuzzFrames reads whatever a worker that was taken over may send: nothing that
// is read may be larger than the limit, and what was read can be written again.
func FuzzFrames(f *testing.F) {
	f.Add(frame(`{"run":1,"ask":{"id":1,"kind":"call","server":"a","tool":"b","args":{}}}`))
	f.Add(frame(`{"run":1,"outcome":{"value":1,"failure":{"kind":"timeout"}}}`))
	f.Add(frame(`{"ready":{}}`))
	f.Add(frame(`{"run":1,"ask":{"kind":"nothing"}}`))
	f.Add(frame(`{"run":1,"ask":{"id":1,"args":{}}}`))
	f.Add(frame(`{"run":1,"outcome":{"failure":{"message":"x"}}}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 9, '{'})
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
			if _, err := sandbox.ReadFrame(bytes.NewReader(again), func() int64 { return sandbox.MaxFrame }); err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
		}
	})
}
