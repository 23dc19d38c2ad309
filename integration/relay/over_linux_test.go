package relay

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
)

// That the client has gone is seen also behind a line that a host does not take; while it
// is there, such a host is waited for.
func TestClientIsGoneBehindALine(t *testing.T) {
	all := newHosts(t)
	var gone atomic.Bool
	all.asked = func(_ context.Context, info attach.HostInfo) (bool, error) {
		if !gone.Load() {
			t.Error("the host is asked while the client is there")
		}
		return false, &attach.HangsError{Host: info}
	}
	s, _ := begin(t, all, soon)
	all.run(false)
	line := []byte(call(1, "mcp_call", strings.Repeat("x", 4<<20)) + "\n")
	for took := -1; took != 0; line = line[took:] { // until nobody takes any more
		_ = s.in.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)) // a pipe takes one
		var err error
		if took, err = s.in.Write(line); err == nil {
			t.Fatal("somebody takes the whole line")
		}
	}
	gone.Store(true)
	_ = s.in.Close()
	s.wants(`"id":1`, "too long to wait")
	s.over()
}
