package index

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// A Keeper remembers what was accepted of servers' tools. Its methods touch
// the disk; the index calls them in workers only. All methods are safe for any
// goroutine and never fail: what cannot be read or written is told to people by
// the keeper, and shows in what is accepted.
type Keeper interface {
	// Load reads what was accepted of a server.
	Load(server string) messages.Accepted
	// Keep accepts a listing where nothing was accepted of its server yet, and
	// otherwise records what differs. It returns what is accepted now.
	Keep(ts *messages.Toolset) messages.Accepted
	// Forget forgets what was accepted of a server.
	Forget(server string)
}

// What the host says to the index.
type (
	// SetPins says what becomes of tools whose definition is not the accepted
	// one.
	SetPins struct{ Mode messages.PinMode }
	// PinsChanged says that others changed what is accepted of servers.
	PinsChanged struct{ Servers []string }
)

type (
	// judging is a listing that is not published yet.
	judging struct {
		ts       *messages.Toolset
		like     *ServerEntry // lists the same; nil: no other does
		instance uint64
		verdict  uint64
	}
	pinsLoaded struct {
		accepted map[string]messages.Accepted
		read     uint64
	}
)

// pinning is what the index actor knows of accepted definitions. One worker at a
// time records them; others read them, meanwhile too.
type pinning struct {
	mode     messages.PinMode
	accepted map[string]messages.Accepted // of servers that were looked up
	atWork   *keeping                     // what the worker records; nil: there is none
	atDisk   <-chan struct{}              // closed when the last worker has ended; nil: there was none
	keeps    map[string]*messages.Toolset // to be recorded
	late     map[string]*messages.Toolset // to be recorded after a pause
	due      map[string]*messages.Toolset // to be recorded when there are no keeps: their pause is over
	kept     map[string]time.Time         // when differences were recorded last
	timer    bool                         // keepLate is on its way
	// reads counts what was begun to be read or recorded. changed is, of servers of
	// which others changed what is accepted, how much that was by then: it may have
	// seen what was there before.
	reads   uint64
	changed map[string]uint64
	// unsettled are listings of servers of which nothing is known to be
	// accepted, under hold: the disk may know better.
	unsettled map[string][]*judging
}

func newPinning() pinning {
	return pinning{
		mode: messages.PinsOff, accepted: map[string]messages.Accepted{},
		keeps: map[string]*messages.Toolset{}, late: map[string]*messages.Toolset{},
		due: map[string]*messages.Toolset{}, kept: map[string]time.Time{},
		changed: map[string]uint64{}, unsettled: map[string][]*judging{},
	}
}

// judge compares a listing with what is accepted, and publishes it. Under hold
// the first listing of a server waits until the disk was asked, since another
// host may have accepted something else.
func (a *indexActor) judge(ctx *kernel.Context, j *judging) {
	p, server := &a.pins, j.ts.Server
	accepted := p.accepted[server]
	switch {
	case a.deps.Keeper == nil || p.mode == messages.PinsOff:
		a.publish(ctx, j, nil)
	case accepted != nil && accepted.Pinned():
		own := a.review(j.ts)
		review := a.sticky(j, own)
		a.publish(ctx, j, review)
		// Where it is as the disk has it, an older listing that is not there yet must not
		// have the last word; one of another instance that holds tools back may.
		if review.Unrecorded || review == own && p.waits(server) {
			a.record(ctx, j.ts)
		}
	case p.mode == messages.PinsHold:
		p.unsettled[server] = append(p.unsettled[server], j)
		p.next(j.ts)
		a.keep(ctx)
	default:
		a.publish(ctx, j, nil) // what is to be said of it comes from the worker
		p.next(j.ts)
		a.keep(ctx)
	}
}

// review says what is to be said of a listing as things stand; nil: nothing.
func (a *indexActor) review(ts *messages.Toolset) *messages.Review {
	accepted := a.pins.accepted[ts.Server]
	if accepted == nil || a.pins.mode == messages.PinsOff {
		return nil
	}
	return accepted.Review(ts, a.pins.mode)
}

// sticky keeps tools closed that another instance of the server has changed,
// until a person says what is accepted: calls may go to either.
func (a *indexActor) sticky(j *judging, review *messages.Review) *messages.Review {
	spec, known := a.specs[j.ts.Server], a.deps.View.Load().Server(j.ts.Server)
	if a.pins.mode != messages.PinsHold || spec == nil || spec.MaxInstances < 2 || known == nil || !known.Toolset.Live {
		return review
	}
	var merged *messages.Review
	for _, e := range known.Entries {
		now := review.Of(e.Tool.Name)
		if e.Review == nil || !e.Review.Held || now != nil && now.Held {
			continue
		}
		if merged == nil {
			own := *review
			if own.Tools = maps.Clone(review.Tools); own.Tools == nil {
				own.Tools = map[string]*messages.ToolReview{}
			}
			own.Unrecorded = false // of the other instance, it is recorded
			merged = &own
		}
		merged.Tools[e.Tool.Name] = e.Review
	}
	if merged != nil {
		return merged
	}
	return review
}

// unsettledFailed refuses the listings that nobody could look after.
func (a *indexActor) unsettledFailed(why any) {
	for server, waiting := range a.pins.unsettled {
		delete(a.pins.unsettled, server)
		for _, j := range waiting {
			a.deps.Notify(server, &messages.Cataloged{Server: server, Instance: j.instance, Verdict: j.verdict, Changes: j.ts.Changes, Err: &messages.Error{
				Code: messages.CodeConnection, Server: server, Class: messages.ClassOther, Retryable: true,
				Message: fmt.Sprintf("what was accepted of %q could not be looked up: %v", server, why),
				Hint:    "Try again; if it stays so, report it with the log of the host.",
			}})
		}
	}
}

// accept makes it known what is accepted of a server, and has it hold for what
// is known of its tools.
func (a *indexActor) accept(ctx *kernel.Context, server string, accepted messages.Accepted) {
	p := &a.pins
	before := p.accepted[server]
	a.setAccepted(server, accepted)
	waiting := p.unsettled[server]
	delete(p.unsettled, server)
	for _, j := range waiting {
		ctx.Contain(func() { // the others wait, too
			a.take(server, j.instance, j.verdict, j.ts.Changes, func() {
				review := a.review(j.ts)
				a.publish(ctx, j, a.sticky(j, review))
				a.writeAgain(ctx, j.ts, review)
			})
		})
	}
	cat := a.deps.View.Load()
	known, spec := cat.Server(server), a.specs[server]
	if len(waiting) > 0 || known == nil || spec == nil {
		return
	}
	review := a.review(known.Toolset)
	a.writeAgain(ctx, known.Toolset, review)
	if before != nil && before.Approvals() == accepted.Approvals() {
		review = a.sticky(&judging{ts: known.Toolset}, review)
	}
	if !sameReview(review, known.Review()) {
		a.deps.View.store(cat.With(known.Toolset, labels(spec, review)))
		a.embedNext(ctx)
	}
}

// setAccepted takes note, for all who read, of what is accepted of a server; nil: that
// is not known.
func (a *indexActor) setAccepted(server string, accepted messages.Accepted) {
	if accepted == nil {
		delete(a.pins.accepted, server)
		a.deps.View.accepted.Delete(server)
		return
	}
	a.pins.accepted[server] = accepted
	a.deps.View.accepted.Store(server, accepted)
}

// sameReview reports whether two reviews say the same of every tool.
func sameReview(x, y *messages.Review) bool {
	none := &messages.Review{}
	x, y = cmp.Or(x, none), cmp.Or(y, none)
	return x.Problem == y.Problem && maps.EqualFunc(x.Tools, y.Tools, func(s, t *messages.ToolReview) bool {
		return s.Change == t.Change && s.Held == t.Held && s.Problem == t.Problem && slices.Equal(s.Parts, t.Parts) && slices.Equal(s.Signs, t.Signs)
	})
}

func (a *indexActor) onSetPins(ctx *kernel.Context, m *SetPins) {
	p := &a.pins
	if p.mode == m.Mode || a.deps.Keeper == nil {
		return
	}
	before := p.mode
	p.mode = m.Mode
	a.deps.View.holding.Store(m.Mode == messages.PinsHold)
	switch messages.PinsOff {
	case before, m.Mode: // what others accepted meanwhile is not known
		clear(p.accepted)
		a.deps.View.accepted.Clear()
	default: // what is known counts at once, and what the disk says when it is read
		for server, accepted := range p.accepted {
			if len(p.unsettled[server]) == 0 {
				ctx.Contain(func() { a.accept(ctx, server, accepted) })
			}
		}
	}
	// What waits for the disk is answered all the same; under another mode
	// than hold nobody has to wait.
	if m.Mode == messages.PinsOff {
		for server, waiting := range p.unsettled {
			delete(p.unsettled, server)
			for _, j := range waiting {
				ctx.Contain(func() {
					a.take(server, j.instance, j.verdict, j.ts.Changes, func() { a.publish(ctx, j, nil) })
				})
			}
		}
	}
	names := make([]string, 0, len(a.specs))
	for name := range a.specs {
		names = append(names, name)
	}
	if m.Mode != messages.PinsOff {
		a.loadPins(ctx, names)
		return
	}
	for server := range a.deps.View.Load().All() {
		if spec := a.specs[server.Toolset.Server]; spec != nil {
			a.deps.View.store(a.deps.View.Load().With(server.Toolset, labels(spec, nil)))
		}
	}
	a.embedNext(ctx)
}

// onPinsChanged reads anew what others changed, and has nothing older count any more.
func (a *indexActor) onPinsChanged(ctx *kernel.Context, m *PinsChanged) {
	for _, server := range m.Servers {
		if a.specs[server] != nil {
			a.pins.changed[server] = a.pins.reads
		}
	}
	a.loadPins(ctx, m.Servers)
}

// outdated says that what was read of a server may be older than what is read now, or
// was already.
func (p *pinning) outdated(server string, read uint64) bool { return read <= p.changed[server] }

// loadPins reads anew what is accepted of servers.
func (a *indexActor) loadPins(ctx *kernel.Context, servers []string) {
	if a.deps.Keeper == nil || a.pins.mode == messages.PinsOff {
		return
	}
	var names []string
	for _, name := range servers {
		if a.specs[name] != nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	a.pins.reads++
	deps, sys, self, read := a.deps, ctx.System(), ctx.Self(), a.pins.reads
	sys.Go(func(context.Context) {
		sys.Send(self, &pinsLoaded{deps.loadAccepted(names), read})
	}, nil)
}

func (a *indexActor) onPinsLoaded(ctx *kernel.Context, m *pinsLoaded) {
	if a.pins.mode == messages.PinsOff {
		return
	}
	for server, accepted := range m.accepted {
		if a.specs[server] == nil || a.pins.outdated(server, m.read) {
			continue
		}
		if len(a.pins.unsettled[server]) > 0 && !accepted.Pinned() {
			continue // the worker that accepts them is under way
		}
		ctx.Contain(func() { a.accept(ctx, server, accepted) })
		known := a.deps.View.Load().Server(server)
		if known == nil || !known.Toolset.Live {
			continue
		}
		switch review := known.Review(); {
		case !accepted.Pinned():
			// Pins were turned on, or somebody deleted them: what the server
			// says now is what counts.
			a.pins.next(known.Toolset)
		case review != nil && review.Unrecorded:
			a.record(ctx, known.Toolset)
		}
	}
	a.keep(ctx)
}

// loadAccepted reads what is accepted of many servers.
func (d *ActorDeps) loadAccepted(names []string) map[string]messages.Accepted {
	var mu sync.Mutex
	accepted := make(map[string]messages.Accepted, len(names))
	next := make(chan string)
	var workers sync.WaitGroup
	for range min(loadParallel, len(names)) {
		workers.Go(func() {
			for name := range next {
				got := d.Keeper.Load(name)
				mu.Lock()
				accepted[name] = got
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	workers.Wait()
	return accepted
}
