package metamcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// What waits for a viewer of the trace has a bound in bytes: it is gone when the viewer
// has taken a record, and what found no room is said then.
func TestViewersHoldSoManyBytes(t *testing.T) {
	const each = 64 << 10
	payload := json.RawMessage(`"` + strings.Repeat("x", each-2) + `"`)
	v := &viewer{out: make(chan messages.TraceRecord, watchBuffer)}
	write := func(n int) {
		for range n {
			if err := v.WriteRecord(&messages.TraceRecord{Payload: payload}); err != nil {
				t.Fatal(err)
			}
		}
	}
	const fit, more = watchBytes / each, 5
	write(fit + more)
	if len(v.out) != fit || v.lost != more || v.bytes != watchBytes {
		t.Errorf("%d records of %d bytes wait and %d are lost, want %d, %d and %d", len(v.out), v.bytes, v.lost, fit, watchBytes, more)
	}
	first := <-v.out
	if &first.Payload[0] == &payload[0] {
		t.Error("the payload of a record is kept longer than the call")
	}
	<-v.out // what is said has its bytes too
	write(1)
	for range fit - 2 {
		<-v.out
	}
	if said := <-v.out; said.Kind != messages.TraceDropped || said.Count != more {
		t.Errorf("then comes %s of %d records", said.Kind, said.Count)
	}
	if r := <-v.out; len(r.Payload) != each || len(v.out) != 0 {
		t.Errorf("then comes %s, and %d more", r.Kind, len(v.out))
	}
	write(1)
	if v.bytes != each || len(v.sizes) != 1 {
		t.Errorf("%d records of %d bytes are said to wait", len(v.sizes), v.bytes)
	}
}
