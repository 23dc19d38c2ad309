package remote

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// bell rings for each frame.
type bell struct{ frames chan struct{} }

func (e bell) Frame(*messages.Frame)               { e.frames <- struct{}{} }
func (bell) Flush()                                {}
func (bell) Noise([]byte)                          {}
func (bell) TooLarge(json.RawMessage)              {}
func (bell) Renewed(json.RawMessage)               {}
func (bell) Unheard()                              {}
func (bell) EOF(error)                             {}
func (bell) Exited(*messages.Exit)                 {}
func (bell) Broken(json.RawMessage, []byte, error) {}

// BenchmarkCallOverHTTP is one call after the other of a server in this process,
// answered with JSON and with a stream.
func BenchmarkCallOverHTTP(b *testing.B) {
	for _, stream := range []bool{false, true} {
		for _, size := range []int{100, 10_000, 1_000_000} {
			body := strings.Repeat("x", size)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if stream {
					w.Header().Set("Content-Type", streamType)
					_, _ = io.WriteString(w, "data: ")
				} else {
					w.Header().Set("Content-Type", jsonType)
				}
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{"text":"`+body+"\"}}\n\n")
			}))
			l, err := NewLauncher(Options{Parse: parse})
			if err != nil {
				b.Fatal(err)
			}
			kind := map[bool]string{false: "json/", true: "stream/"}[stream]
			ring := func(b *testing.B) (*Link, bell) {
				b.Helper()
				ear := bell{make(chan struct{}, 1)}
				k, err := l.Launch(&messages.ServerSpec{Name: "x", Transport: messages.TransportHTTP, URL: s.URL}, ear)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(k.Release)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				return k, ear
			}
			b.Run(kind+strconv.Itoa(size), func(b *testing.B) {
				k, ear := ring(b)
				for b.Loop() {
					if err := k.Send([]byte(callLine)); err != nil {
						b.Fatal(err)
					}
					<-ear.frames
				}
			})
			l.Close()
			s.Close()
		}
	}
}
