package supervision

import (
	"fmt"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// settle brings the pool to rest after whatever happened and appends what has
// to be done for it. Its order is the pool's policy: first those leave who
// waited too long, then free places go to those who still wait, and only for
// the rest of them connections are ended.
func (p *Pool) settle(now time.Time, acts []Action) []Action {
	if p.draining {
		return p.drain(acts)
	}
	acts = p.expire(now, acts)
	acts = p.grant(now, acts)
	p.refillReserve()
	acts = p.evictForWaiters(acts)
	return p.sweepIdle(now, acts)
}

// expirySteps bounds by how much of AcquireTimeout a call waits longer than that where
// its client made more of them for the same ticket: one part of so many.
const expirySteps = 8

func (p *Pool) drain(acts []Action) []Action {
	for w := p.waiters.any(); w != nil; w = p.waiters.any() {
		p.waiters.withdraw(w.ticket)
		acts = append(acts, Refuse{Ticket: w.ticket, Err: errDraining(w.server)})
	}
	for l := p.leastRecentlyUsed(); l != nil; l = p.leastRecentlyUsed() {
		acts = append(acts, p.evict(l, EvictForDrain))
	}
	p.refillReserve()
	return acts
}

func (p *Pool) expire(now time.Time, acts []Action) []Action {
	for w := p.waiters.nextToExpire(); w != nil && !w.expires.After(now); w = p.waiters.nextToExpire() {
		err, before, last := p.errWaitedTooLong(w, now), now, w.last
		if p.cfg.AcquireTimeout > 0 && w.deadline.IsZero() {
			// A call that came since then has its time still, also where the pool has not
			// heard of it.
			before, last = now.Add(-p.cfg.AcquireTimeout), w.last.Add(p.cfg.AcquireTimeout)
		}
		if last.After(now) {
			// When those between the first and the last came is not kept, so it is looked
			// after them some times.
			acts = append(acts, TurnAway{Ticket: w.ticket, Client: w.client, Contact: w.kind == forContact, Before: before, Err: err})
			next := now.Add(max(p.cfg.AcquireTimeout/expirySteps, 1))
			if last.Before(next) {
				next = last
			}
			p.waiters.schedule(w, next)
			continue
		}
		p.waiters.remove(w)
		acts = append(acts, p.refuse(w, before, err))
	}
	return acts
}

// refuse turns one away who does not wait any more, and with it the ticket where nobody
// else waits for that.
func (p *Pool) refuse(w *waiter, before time.Time, err *messages.Error) Action {
	if p.waiters.has(w.ticket) {
		return TurnAway{Ticket: w.ticket, Client: w.client, Contact: w.kind == forContact, Before: before, Err: err}
	}
	return Refuse{Ticket: w.ticket, Err: err}
}

// grant gives free main places to the waiters, one client after the other and to
// contacts once no call waits, and then free reserve places to the oldest call, if it
// waited for long enough.
func (p *Pool) grant(now time.Time, acts []Action) []Action {
	for p.mainLive() < p.cfg.Size {
		w := p.waiters.next()
		if w == nil {
			return acts
		}
		acts = append(acts, p.grantTo(w, now, false))
	}
	for p.reserveFree() {
		w := p.waiters.oldest(forCall)
		if w == nil || now.Before(w.since.Add(p.cfg.ReserveAfter)) {
			break
		}
		acts = append(acts, p.grantTo(w, now, true))
	}
	return acts
}

func (p *Pool) grantTo(w *waiter, now time.Time, reserve bool) Grant {
	p.waiters.served(w)
	p.lastLease++
	l := &lease{id: p.lastLease, server: w.server, state: leaseBusy, sweepIndex: -1}
	p.leases[l.id] = l
	p.busy.add(l.server, 1)
	if reserve {
		l.onReserve = p.reserve.PushBack(l)
	}
	if w.kind == forContact {
		p.lendToContacts(l)
	}
	return Grant{
		Ticket: w.ticket, Lease: l.id, Server: w.server, Client: w.client, Contact: w.kind == forContact,
		Reserve: reserve, Waited: max(now.Sub(w.since), 0),
	}
}

// refillReserve moves reserve leases to main places that nobody waits for.
func (p *Pool) refillReserve() {
	for p.mainLive() < p.cfg.Size && p.reserve.Len() > 0 {
		l := p.reserve.Remove(p.reserve.Front()).(*lease)
		l.onReserve = nil
		if l.state == leaseEvicting {
			p.evictingMain++
		}
	}
}

// evictForWaiters evicts the least recently used idle connections, as many as main
// places are lacking for those who wait and for what a smaller pool has too
// many, and where there are none for a call one that is for contacts alone: that which
// has had most time, since it is the least likely to be of use soon. Those that are
// ending already count, so there is never one eviction more in flight than is needed.
func (p *Pool) evictForWaiters(acts []Action) []Action {
	for {
		staying, calls := p.mainLive()-p.evictingMain, p.waiters.calls()
		if staying+calls+p.contactsToServe() <= p.cfg.Size {
			return acts
		}
		l := p.leastRecentlyUsed()
		if l == nil && calls > 0 && staying+calls > p.cfg.Size {
			l = p.contactToEnd()
		}
		if l == nil {
			return acts
		}
		reason := EvictForRoom
		if staying > p.cfg.Size {
			reason = EvictShrink
		}
		acts = append(acts, p.evict(l, reason))
	}
}

// contactToEnd returns the lease for contacts alone that ends for a call which waits: the
// longest one on a main place; nil: there is none. The end of one on the reserve frees no
// main place.
func (p *Pool) contactToEnd() *lease {
	for e := p.contacts.Front(); e != nil; e = e.Next() {
		if l := e.Value.(*lease); l.onReserve == nil {
			return l
		}
	}
	return nil
}

// keptFromContacts is which part of the main places, and one at least, is not emptied
// for contacts.
const keptFromContacts = 4

// contactsToServe is how many places are waited for by contacts alone for which idle
// connections may end.
func (p *Pool) contactsToServe() int {
	most := max(p.cfg.Size-max(p.cfg.Size/keptFromContacts, 1), 1)
	return min(p.waiters.len()-p.waiters.calls(), max(most-p.contacts.Len(), 0))
}

func (p *Pool) sweepIdle(now time.Time, acts []Action) []Action {
	for len(p.sweep) > 0 && p.aboveMin() && !p.sweep[0].sweepAt.After(now) {
		acts = append(acts, p.evict(p.sweep[0], EvictIdle))
	}
	return acts
}

// mainLive is the number of main places that are taken.
func (p *Pool) mainLive() int { return len(p.leases) - p.reserve.Len() }

// reserveFree reports whether a reserve place may be given out. A pool that
// was made smaller and still holds too many does not open its reserve.
func (p *Pool) reserveFree() bool {
	return p.reserve.Len() < p.cfg.Reserve && len(p.leases) < p.cfg.Size+p.cfg.Reserve
}

// aboveMin reports whether the sweep may end one more connection.
func (p *Pool) aboveMin() bool { return len(p.leases)-p.evicting > p.cfg.Min }

func (p *Pool) errQueueFull(server string) *messages.Error {
	return &messages.Error{
		Code: messages.CodePoolSaturated, Server: server, Retryable: true,
		Message: fmt.Sprintf("no connection to server %q could be opened: %s, and %d requests wait for one already",
			server, p.inUse(), p.waiters.room()),
		Hint: fmt.Sprintf("Wait for running calls to finish before starting more. The operator can raise pool.poolSize (now %d) or pool.maxWaiters (now %d).",
			p.cfg.Size, p.cfg.MaxWaiters),
	}
}

func (p *Pool) errWaitedTooLong(w *waiter, now time.Time) *messages.Error {
	waited := now.Sub(w.since)
	if limit := p.cfg.AcquireTimeout; limit > 0 {
		waited = min(waited, limit) // those of its calls which that is for came one after the other
	}
	return &messages.Error{
		Code: messages.CodePoolSaturated, Server: w.server, Retryable: true,
		Message: fmt.Sprintf("no connection to server %q could be opened within %s: %s; nothing was sent",
			w.server, waited.Round(time.Millisecond), p.inUse()),
		Hint: fmt.Sprintf("Call again once one of these servers has finished, with fewer calls at a time. The operator can raise pool.poolSize (now %d), pool.resPoolSize (now %d) or pool.acquireTimeoutMs.",
			p.cfg.Size, p.cfg.Reserve),
	}
}

// inUse says in one clause how many places are taken and by whom.
func (p *Pool) inUse() string {
	s := fmt.Sprintf("%d of %d places are taken", len(p.leases), p.cfg.Size+p.cfg.Reserve)
	if top := p.busy.top(); top != "" {
		s += ", most of all by " + top
	}
	return s
}
