package front

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// One call and its answer through real pipes; the engine answers at once, so
// that what is measured is the front alone.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			text := strings.Repeat("x", size)
			engine := &fakeEngine{}
			result := fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s"}]}`, text)
			engine.call = func(r Request) { r.Reply.Answer(&messages.Answer{Result: result}) }
			s := start(b, Options{Engine: engine})
			line := []byte(callLine(1, `{"server":"s","tool":"t","args":{"text":"`+text+`"}}`) + "\n")
			b.SetBytes(int64(len(line) + len(result)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.in.Write(line); err != nil {
					b.Fatal(err)
				}
				if _, err := s.lines.ReadSlice('\n'); err != nil && size < 1<<20 {
					b.Fatal(err)
				} else if err != nil {
					if _, err := s.lines.ReadString('\n'); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// A burst of 32 answers to a client that keeps up, each in a write of its own
// or all in one.
func BenchmarkBurst(b *testing.B) {
	for _, held := range []bool{false, true} {
		b.Run(fmt.Sprintf("held=%v", held), func(b *testing.B) {
			r, w := pipe(b)
			o := newOutput(w, new(Unread), nil)
			line := bytes.Repeat([]byte("x"), 100)
			const burst = 32
			in := make([]byte, burst*(len(line)+1))
			b.ReportAllocs()
			for b.Loop() {
				for i := range burst {
					if held && i < burst-1 {
						o.Hold(line)
						continue
					}
					if err := o.Write(line); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := io.ReadFull(r, in); err != nil {
					b.Fatal(err)
				}
			}
			if err := o.Close(10 * time.Second); err != nil {
				b.Error(err)
			}
		})
	}
}
