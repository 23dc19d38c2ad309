package supervision

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Gauge is what a connection shows of itself to anyone, without a message. The
// connection alone sets it, but for Listed.
type Gauge struct {
	Load atomic.Int64 // calls held, those that wait included
	PID  atomic.Int64 // of the child process; 0: none
	// Answered is how many requests of clients its children have answered.
	Answered atomic.Uint64
	// Placed says that it has been told to start: it has a place in the pool.
	Placed atomic.Bool
	// Changes is how many changes of their list of tools its children have announced; the
	// start of each is one, and so is its end. It is counted before what the child says
	// after it goes to anyone.
	Changes atomic.Uint64
	// Listed is how many of them are in a listing that the catalog has, or had. The breaker
	// sets it, after the catalog.
	Listed atomic.Uint64

	tally *Tally // of the server; nil: nobody counts
}

// behind says whether its children have announced a change that the catalog has not seen.
func (g *Gauge) behind() bool { return g.Listed.Load() < g.Changes.Load() }

// live is one connection of a breaker's as the directory knows it.
type live struct {
	instance uint64
	actor    string
	state    messages.State
	retired  bool // it gets no calls any more
	owner    uint64
	since    time.Time
	gauge    *Gauge
}

// lists says whether its child runs, and that its listing counts for those to come.
func (l *live) lists() bool { return l.state == messages.StateIdle && !l.retired }

// Behind says whether a child of the server, which runs, has announced a change of its list
// of tools that the catalog has not seen yet.
func (e *Entry) Behind() bool {
	known := e.live.Load()
	return known != nil && slices.ContainsFunc(*known, func(l live) bool { return l.lists() && l.gauge.behind() })
}

// Runs says whether the child of an instance runs.
func (e *Entry) Runs(instance uint64) bool {
	known := e.live.Load()
	return known != nil && slices.ContainsFunc(*known, func(l live) bool { return l.instance == instance && l.lists() })
}

// Placed says whether a connection of the server has a place in the pool; others may wait
// for one.
func (e *Entry) Placed() bool {
	known := e.live.Load()
	return known != nil && slices.ContainsFunc(*known, func(l live) bool { return l.gauge.Placed.Load() })
}

// Instances are the server's living connections at this moment, oldest first.
func (e *Entry) Instances() []messages.Instance {
	known := e.live.Load()
	if known == nil {
		return nil
	}
	out := make([]messages.Instance, 0, len(*known))
	for _, l := range *known {
		load, state := int(l.gauge.Load.Load()), l.state
		if state == messages.StateIdle && load > 0 {
			state = messages.StateActive
		}
		out = append(out, messages.Instance{
			Actor: l.actor, PID: int(l.gauge.PID.Load()), State: StateName(state), InFlight: load, Session: l.owner, Since: l.since,
		})
	}
	return out
}
