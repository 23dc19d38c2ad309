package index

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// How listings are written down as what was accepted of their servers, one worker at a time.

type (
	kept struct {
		accepted map[string]messages.Accepted
		left     map[string]*messages.Toolset // what the worker did not come to
		read     uint64
		broke    any // why the worker did nothing
	}
	keepLate struct{}
	// keeping is what one worker records.
	keeping struct {
		sets map[string]*messages.Toolset
		// late says that nobody waits for them: they differ from what was accepted, or
		// could not be written before.
		late bool
		// left is what the worker did not come to, since one before could not be
		// written, which makes it stuck. They are the worker's until it has ended.
		left  map[string]*messages.Toolset
		stuck bool
	}
)

// keepPause is how long a server whose differences were recorded waits before
// others are: one that changes its tools for ever must not keep the disk busy. What
// could not be written is tried again as often.
const keepPause = 10 * time.Second

// latePatience is how long a worker records what nobody waits for although some of it
// cannot be written: where another program has the lock, each listing takes seconds, and
// a first one of another server may wait behind them.
const latePatience = time.Second

// next has a listing recorded by the next worker, and none of its server that is older
// after it: what that one differs in is not so any more.
func (p *pinning) next(ts *messages.Toolset) {
	p.keeps[ts.Server] = ts
	delete(p.late, ts.Server)
	delete(p.due, ts.Server)
}

// waits says that a listing of a server is still to be recorded, or is being recorded.
func (p *pinning) waits(server string) bool {
	return p.atWork != nil && p.atWork.sets[server] != nil || p.keeps[server] != nil || p.late[server] != nil || p.due[server] != nil
}

// record has differences written down, at a bounded pace for each server.
func (a *indexActor) record(ctx *kernel.Context, ts *messages.Toolset) {
	p := &a.pins
	if time.Since(p.kept[ts.Server]) < keepPause {
		a.recordLate(ctx, ts)
		return
	}
	p.kept[ts.Server] = time.Now()
	p.next(ts)
	a.keep(ctx)
}

func (a *indexActor) recordLate(ctx *kernel.Context, ts *messages.Toolset) {
	p := &a.pins
	p.late[ts.Server] = ts
	if !p.timer {
		p.timer = true
		ctx.After(keepPause, &keepLate{})
	}
}

func (a *indexActor) onKeepLate(ctx *kernel.Context) {
	p := &a.pins
	p.timer = false
	for server, ts := range p.late {
		if a.specs[server] != nil {
			p.due[server], p.kept[server] = ts, time.Now()
		}
	}
	clear(p.late)
	a.keep(ctx)
}

// begin takes what the next worker records, those first that somebody waits for; nil: there
// is nothing.
func (p *pinning) begin() *keeping {
	switch {
	case len(p.keeps) > 0:
		p.atWork = &keeping{sets: p.keeps}
		p.keeps = map[string]*messages.Toolset{}
	case len(p.due) > 0:
		p.atWork = &keeping{sets: p.due, late: true}
		p.due = map[string]*messages.Toolset{}
	}
	return p.atWork
}

// keep gives the worker the next listings.
func (a *indexActor) keep(ctx *kernel.Context) {
	p := &a.pins
	if p.atWork != nil {
		return
	}
	work := p.begin()
	if work == nil {
		return
	}
	p.reads++
	read, mode := p.reads, p.mode
	deps, sys, self, over := a.deps, ctx.System(), ctx.Self(), make(chan struct{})
	p.atDisk = over
	sys.Go(func(context.Context) {
		defer close(over)
		accepted := work.record(deps.Keeper, mode)
		sys.Send(self, &kept{accepted: accepted, left: work.left, read: read})
	}, func(why any) { sys.Send(self, &kept{read: read, broke: why}) })
}

// record does the work of a worker, and returns what is accepted.
func (k *keeping) record(keeper Keeper, mode messages.PinMode) map[string]messages.Accepted {
	accepted := make(map[string]messages.Accepted, len(k.sets))
	k.left = map[string]*messages.Toolset{}
	began := time.Now()
	for server, ts := range k.sets {
		if k.stuck {
			k.left[server] = ts
			continue
		}
		now := keeper.Keep(ts)
		accepted[server] = now
		k.stuck = k.late && time.Since(began) >= latePatience && now.Review(ts, mode).Unwritten
	}
	return accepted
}

// leavePins has recorded what waits for that when the actor ends: to the next host
// tools that were never recorded would be new, however they have changed by then.
func (a *indexActor) leavePins(sys *kernel.System) {
	p := &a.pins
	deps, specs, mode := a.deps, a.specs, p.mode
	before, atWork := p.atDisk, p.atWork
	inOrder := []map[string]*messages.Toolset{p.keeps, p.due, p.late}
	p.keeps, p.due, p.late = nil, nil, nil
	if deps.Keeper == nil || mode == messages.PinsOff {
		return
	}
	sys.Go(func(context.Context) {
		if before != nil {
			<-before
		}
		if atWork != nil {
			maps.DeleteFunc(atWork.left, func(server string, _ *messages.Toolset) bool { return specs[server] == nil })
			inOrder = slices.Insert(inOrder, 0, atWork.left)
		}
		for _, sets := range inOrder {
			work := &keeping{sets: sets, late: true}
			work.record(deps.Keeper, mode) // the keeper tells of what goes wrong
			if work.stuck {
				deps.Warn("what servers listed last was not recorded of all of them: the state folder cannot be written to in time")
				return
			}
		}
	}, nil)
}

func (a *indexActor) onKept(ctx *kernel.Context, m *kept) {
	a.pins.atWork = nil
	for server, accepted := range m.accepted {
		if a.specs[server] == nil {
			delete(a.pins.unsettled, server)
			continue
		}
		if a.pins.outdated(server, m.read) && len(a.pins.unsettled[server]) == 0 {
			continue
		}
		ctx.Contain(func() { a.accept(ctx, server, accepted) }) // the other servers wait, too
	}
	for server, ts := range m.left {
		if a.specs[server] != nil && !a.pins.waits(server) { // what waits is newer
			a.recordLate(ctx, ts)
		}
	}
	if m.broke != nil {
		a.unsettledFailed(m.broke)
	}
	a.keep(ctx)
}

// writeAgain has recorded later what could not be written: with this host it would be
// forgotten, and the next one would accept whatever the server says then.
func (a *indexActor) writeAgain(ctx *kernel.Context, ts *messages.Toolset, review *messages.Review) {
	if ts.Live && review != nil && review.Unwritten {
		a.recordLate(ctx, ts)
	}
}
