package relay

import (
	"testing"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// What every call has costs the relay no memory.
func TestNoAllocations(t *testing.T) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"a":[1]},"_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"r"}}`,
	} {
		var slots [numSlots][]byte
		message := []byte(line)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := jsonrpc.ParseShape(message, shape, slots[:]); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations for %s", n, line)
		}
	}
}
