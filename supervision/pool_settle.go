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

func (p *Pool) drain(acts []Action) []Action {
	for w := p.waiters.oldest(); w != nil; w = p.waiters.oldest() {
		p.waiters.remove(w)
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
		p.waiters.remove(w)
		acts = append(acts, Refuse{Ticket: w.ticket, Err: p.errWaitedTooLong(w, now)})
	}
	return acts
}

// grant gives free main places to the waiters, one client after the other,
// and then free reserve places to the oldest of them, if it waited for long
// enough.
func (p *Pool) grant(now time.Time, acts []Action) []Action {
	for p.mainLive() < p.cfg.Size {
		w := p.waiters.next()
		if w == nil {
			return acts
		}
		acts = append(acts, p.grantTo(w, now, false))
	}
	for p.reserveFree() {
		w := p.waiters.oldest()
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
	return Grant{
		Ticket: w.ticket, Lease: l.id, Server: w.server, Client: w.client,
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
// many. Those that are ending already count, so there is never one eviction
// more in flight than is needed.
func (p *Pool) evictForWaiters(acts []Action) []Action {
	for {
		staying := p.mainLive() - p.evictingMain
		if staying+p.waiters.len() <= p.cfg.Size {
			return acts
		}
		l := p.leastRecentlyUsed()
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
		Message: fmt.Sprintf("no connection to server %q could be opened: %s, and %d calls wait for one already",
			server, p.inUse(), p.waiters.len()),
		Hint: fmt.Sprintf("Wait for running calls to finish before starting more. The operator can raise pool.poolSize (now %d) or pool.maxWaiters (now %d).",
			p.cfg.Size, p.cfg.MaxWaiters),
	}
}

func (p *Pool) errWaitedTooLong(w *waiter, now time.Time) *messages.Error {
	return &messages.Error{
		Code: messages.CodePoolSaturated, Server: w.server, Retryable: true,
		Message: fmt.Sprintf("no connection to server %q could be opened within %s: %s; nothing was sent",
			w.server, now.Sub(w.since).Round(time.Millisecond), p.inUse()),
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
