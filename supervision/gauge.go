package supervision

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Gauge is what a connection shows of itself to anyone, without a message. The
// connection alone sets it, but for what says that the breaker does.
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
	// Began is what Changes was at the start of the child that runs, or at the end of the
	// last one: what was listed before is of another child.
	Began atomic.Uint64
	// Listed is how many of the changes are in a listing that the catalog has, or had. The
	// breaker sets it, after the catalog.
	Listed atomic.Uint64
	// Tried is how many of them are in a listing that is over: the catalog has taken it in,
	// or it has failed. The breaker sets it.
	Tried atomic.Uint64
	// Unlisted is why the last listing has failed; nil: the catalog has it. The breaker sets it.
	Unlisted atomic.Pointer[messages.Error]

	tally *Tally // of the server; nil: nobody counts
}

// Turn counts the start of a child, or its end.
func (g *Gauge) Turn() {
	g.Began.Store(g.Changes.Load() + 1) // before: what its children listed so far is out of date at once
	g.Changes.Add(1)
}

// announced is how many changes there are where the child that runs has announced some of
// them; 0: none but its start.
func (g *Gauge) announced() uint64 {
	if n := g.Changes.Load(); n > g.Began.Load() {
		return n
	}
	return 0
}

// listed says whether the child that runs has listed its tools, and the catalog had that.
func (g *Gauge) listed() bool { n := g.Listed.Load(); return n > 0 && n >= g.Began.Load() }

// behind says whether the child that runs has announced a change that is in no listing
// which is over.
func (g *Gauge) behind() bool { return g.Tried.Load() < g.announced() }

// missed is why a change that the child which runs has announced is in no listing that the
// catalog has, though that was tried; nil: none is missing.
func (g *Gauge) missed() *messages.Error {
	if g.Tried.Load() > max(g.Listed.Load(), g.Began.Load()) {
		return g.Unlisted.Load()
	}
	return nil
}

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

// any says whether the gauge of a connection whose child runs is so.
func (e *Entry) any(so func(g *Gauge) bool) bool {
	known := e.live.Load()
	return known != nil && slices.ContainsFunc(*known, func(l live) bool { return l.lists() && so(l.gauge) })
}

// Behind says whether a child of the server, which runs, has announced a change of its list
// of tools of which it is not known yet what came. A change whose listing has failed is none
// of these: see [Entry.Missed]. Nor is the start of a child beside others.
func (e *Entry) Behind() bool { return e.any((*Gauge).behind) }

// Lists says whether a child of the server, which runs, is still to list its tools: it has
// only been started, or is behind.
func (e *Entry) Lists() bool {
	return e.any(func(g *Gauge) bool { return g.Tried.Load() < g.Changes.Load() })
}

// Missed is why the catalog has no listing of a change that a child of the server, which
// runs, has announced, though it was asked for one; nil: there is no such change.
func (e *Entry) Missed() (why *messages.Error) {
	e.any(func(g *Gauge) bool {
		why = g.missed()
		return why != nil
	})
	return why
}

// Runs says whether the child runs that has made a listing.
func (e *Entry) Runs(ts *messages.Toolset) bool {
	known := e.live.Load()
	return known != nil && slices.ContainsFunc(*known, func(l live) bool {
		return l.instance == ts.Instance && l.lists() && ts.Changes >= l.gauge.Began.Load()
	})
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
