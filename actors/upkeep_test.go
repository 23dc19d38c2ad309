package actors

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// TestUpkeepIsNoUse: a server that the host itself asks, again and again, ends for being idle
// as one that nobody asks.
func TestUpkeepIsNoUse(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, func(s *messages.ServerSpec) { s.IdleTimeout = 300 * time.Millisecond })
	r.ok("a")
	r.f.eventually(t, "it has ended, and is started anew", func() bool {
		r.wantResult(r.do("a", "do", doArgs{}, func(c *messages.Call) { c.Upkeep = true }))
		return r.f.started("a") > 1
	})
}
