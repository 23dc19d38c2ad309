package supervision

import (
	"sync/atomic"

	"github.com/metamcp/metamcp/messages"
)

// Tally counts what happened to a server since it was configured. Breaker and
// connections count; anybody may read.
type Tally struct {
	spawns, exits, retries     atomic.Uint64
	opened, halfOpened, closed atomic.Uint64
}

// Counts are the tally's numbers at this moment.
func (e *Entry) Counts() messages.ServerCounts {
	t := &e.tally
	return messages.ServerCounts{
		Spawns: t.spawns.Load(), Exits: t.exits.Load(), Retries: t.retries.Load(),
		Opened: t.opened.Load(), HalfOpened: t.halfOpened.Load(), Closed: t.closed.Load(),
	}
}

// moved counts a change of the breaker. That an open one has become half-open
// is a matter of time alone; it is counted with what comes of it.
func (t *Tally) moved(before, after BreakerState) {
	if before == BreakerHalfOpen {
		t.halfOpened.Add(1)
	}
	switch after {
	case BreakerOpen:
		t.opened.Add(1)
	case BreakerClosed:
		t.closed.Add(1)
	case BreakerHalfOpen:
	}
}

// Spawned counts a child process that was started.
func (g *Gauge) Spawned() {
	if g.tally != nil {
		g.tally.spawns.Add(1)
	}
}

// Exited counts a child process that ended.
func (g *Gauge) Exited() {
	if g.tally != nil {
		g.tally.exits.Add(1)
	}
}
