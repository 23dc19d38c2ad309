package supervision

import (
	"container/list"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Pool hands out the places that connections live in. It starts and ends
// nothing itself: every method takes the present time and returns what is to
// be done, in the order in which it was decided. Each costs O(log n) in the
// number of leases and waiters, except Reconfigure, IdleChanged and Drain, which
// are O(n), and Squeeze, which is O(n log n).
// Not safe for concurrent use: its actor is the only caller.
//
// A place is taken from the Grant until Release, so connecting, used, idle
// and ending connections all count. Of these never more than Size live on
// main places and Reserve on reserve places, unless Reconfigure made the pool
// smaller than what lives in it.
//
// A lease is on a main or on a reserve place. One on the reserve is evicted as
// soon as it is idle. When a main place falls free and nobody waits for it,
// the oldest reserve lease moves over to it, and the reserve is whole again
// without ending anything.
//
// A place is for a call or for a contact alone, which only wants a server's tools. Calls
// come first: contacts wait behind them, have no place of the reserve, and give the
// one that they have to a call for which no idle connection can end. Free places
// contacts may have all of; for their sake idle connections end only as long as those
// under way leave a part of the places to others, so that a search among servers which do
// not start ends nothing that is in use now and then.
type Pool struct {
	cfg      PoolConfig
	draining bool

	waiters waitQueue

	leases    map[uint64]*lease
	lastLease uint64
	// reserve holds the leases on reserve places, oldest grant first.
	reserve list.List
	// idle and idleKeepAlive hold the idle leases, least recently used first.
	idle, idleKeepAlive list.List
	lastIdle            uint64 // counts how often a lease fell idle
	// contacts holds the busy leases that are for contacts alone, oldest first.
	contacts list.List
	// sweep orders the idle leases that have a timeout by its end.
	sweep timeHeap[*lease]

	evicting     int // leases asked to end
	evictingMain int // those of them on main places
	busy         holders
}

// NewPool returns an empty pool. Numbers of cfg that are out of range are
// moved into it: sizes and durations to 0, Size and MaxWaiters to 1.
func NewPool(cfg PoolConfig) *Pool {
	return &Pool{
		cfg:     cfg.bounded(),
		leases:  map[uint64]*lease{},
		waiters: newWaitQueue(),
		busy:    newHolders(),
	}
}

// Acquire asks for a place for a new connection to server on behalf of client,
// which is a [messages.Meta.Of]. The ticket, which the caller makes up, is answered by exactly one
// Grant or Refuse, now or from a later call, unless it is withdrawn before.
// Where all who may wait do, the newest of the client that has most of them gives
// way to one of a client that has fewer.
// A ticket that waits already is left as it is. A zero deadline is none; the
// pool's AcquireTimeout bounds the wait in any case.
func (p *Pool) Acquire(now time.Time, ticket uint64, server string, client uint64, deadline time.Time) []Action {
	return p.acquire(now, &waiter{ticket: ticket, server: server, client: client, since: now, last: now, deadline: deadline})
}

// AcquireForContact is Acquire for a contact alone.
func (p *Pool) AcquireForContact(now time.Time, ticket uint64, server string, client uint64) []Action {
	return p.acquire(now, &waiter{ticket: ticket, server: server, client: client, kind: forContact, since: now, last: now})
}

func (p *Pool) acquire(now time.Time, w *waiter) []Action {
	if p.waiters.has(w.ticket) {
		return p.settle(now, nil)
	}
	if p.draining {
		return p.settle(now, []Action{Refuse{Ticket: w.ticket, Err: errDraining(w.server)}})
	}
	if !w.deadline.IsZero() && !w.deadline.After(now) {
		return p.settle(now, []Action{Refuse{Ticket: w.ticket, Err: errTooLate(w.server)}})
	}
	return p.settle(now, p.enqueue(now, w, nil))
}

// Join reports that one more call waits for a ticket, on behalf of a client which may
// be another than that of the others: the ticket is in the turn of each of them, and
// each call waits for as long as any may, or somewhat longer where its client made more.
// What is over for some of those who wait is told by a TurnAway. Of a ticket that does
// not wait it does nothing; its answer is on the way.
func (p *Pool) Join(now time.Time, ticket, client uint64) []Action {
	return p.join(now, ticket, client, forCall)
}

// JoinForContact is Join for one more contact. A ticket is for contacts alone until a call
// joins.
func (p *Pool) JoinForContact(now time.Time, ticket, client uint64) []Action {
	return p.join(now, ticket, client, forContact)
}

func (p *Pool) join(now time.Time, ticket, client uint64, what kind) []Action {
	acts := p.grant(now, p.expire(now, nil))
	switch w := p.waiters.of(ticket, client, what); {
	case w != nil:
		w.last = now
		if !w.deadline.IsZero() {
			w.deadline = time.Time{}
			p.waiters.schedule(w, p.expiry(w))
		}
	case p.waiters.has(ticket):
		server := p.waiters.byTicket[ticket][0].server
		acts = p.enqueue(now, &waiter{ticket: ticket, server: server, client: client, kind: what, since: now, last: now}, acts)
	}
	return p.settle(now, acts)
}

// enqueue lets a client wait for a ticket, if there is room or somebody gives way.
func (p *Pool) enqueue(now time.Time, w *waiter, acts []Action) []Action {
	// Those whose time is up make room in the queue before it is found full.
	acts = p.grant(now, p.expire(now, acts))
	var displaced *waiter
	if p.waiters.room() >= p.cfg.MaxWaiters {
		if displaced = p.waiters.displace(w.client, w.kind); displaced == nil {
			return append(acts, p.refuse(w, now, p.errQueueFull(w.server)))
		}
	}
	w.expires = p.expiry(w)
	p.waiters.push(w)
	if displaced != nil {
		acts = append(acts, p.refuse(displaced, now, p.errQueueFull(displaced.server)))
	}
	return acts
}

// Withdraw gives a ticket up that was not answered yet; of any other it does
// nothing. Whoever gets a Grant after a Withdraw must release the lease.
func (p *Pool) Withdraw(now time.Time, ticket uint64) []Action {
	p.waiters.withdraw(ticket)
	return p.settle(now, nil)
}

// Used reports that an idle connection has become busy. For one that was
// asked to end meanwhile it changes nothing: EvictRefused or Release follows.
func (p *Pool) Used(now time.Time, id uint64) []Action {
	if l := p.leases[id]; l != nil && l.state == leaseIdle {
		p.makeBusy(l)
	}
	return p.settle(now, nil)
}

// UsedForContact is Used where that is for a contact alone.
func (p *Pool) UsedForContact(now time.Time, id uint64) []Action {
	if l := p.leases[id]; l != nil && l.state == leaseIdle {
		p.makeBusy(l)
		p.lendToContacts(l)
	}
	return p.settle(now, nil)
}

// Wanted reports that a call wants the connection of a lease that was for contacts alone.
// Of any other it changes nothing. Where it was asked to end, EvictRefused follows.
func (p *Pool) Wanted(now time.Time, id uint64) []Action {
	if l := p.leases[id]; l != nil {
		p.takeFromContacts(l)
	}
	return p.settle(now, nil)
}

// Idle reports that a connection has nothing in flight. It becomes the most
// recently used one, also when it was idle already.
func (p *Pool) Idle(now time.Time, id uint64, opts IdleOptions) []Action {
	if l := p.leases[id]; l != nil && l.state != leaseEvicting {
		p.makeIdle(l, now, opts)
		if l.onReserve != nil {
			return p.settle(now, []Action{p.evict(l, EvictReserve)})
		}
	}
	return p.settle(now, nil)
}

// IdleChanged reports that an idle connection is to be treated otherwise. It
// keeps its place among those that are idle and the time since when it is; of a
// connection that is not idle it changes nothing.
func (p *Pool) IdleChanged(now time.Time, id uint64, opts IdleOptions) []Action {
	if l := p.leases[id]; l != nil && l.state == leaseIdle {
		p.reorder(l, opts)
	}
	return p.settle(now, nil)
}

// Release reports that a connection's whole process tree is gone, whatever
// the reason. The place is free. A lease that is unknown, or was released
// before, is ignored.
func (p *Pool) Release(now time.Time, id uint64) []Action {
	if l := p.leases[id]; l != nil {
		p.makeBusy(l)
		p.takeFromContacts(l)
		p.busy.add(l.server, -1)
		if l.onReserve != nil {
			p.reserve.Remove(l.onReserve)
		}
		delete(p.leases, id)
	}
	return p.settle(now, nil)
}

// EvictRefused reports that a connection which was asked to end had become
// busy before, or a call's, or that one which ends is started again or does not come to
// its end. It is busy from now on.
func (p *Pool) EvictRefused(now time.Time, id uint64) []Action {
	if l := p.leases[id]; l != nil && l.state == leaseEvicting {
		p.makeBusy(l)
	}
	return p.settle(now, nil)
}

// EvictRefusedForContact is EvictRefused where the connection is for a contact alone.
func (p *Pool) EvictRefusedForContact(now time.Time, id uint64) []Action {
	if l := p.leases[id]; l != nil && l.state == leaseEvicting {
		p.makeBusy(l)
		p.lendToContacts(l)
	}
	return p.settle(now, nil)
}

// MakeRoom evicts the least recently used idle connection, for a connection
// that has a place but was refused a process or a descriptor by the system. It
// returns the lease that ends, 0 where nothing is idle.
func (p *Pool) MakeRoom(now time.Time) (id uint64, acts []Action) {
	if l := p.leastRecentlyUsed(); l != nil {
		id, acts = l.id, []Action{p.evict(l, EvictForRoom)}
	}
	return id, p.settle(now, acts)
}

// Squeeze evicts a quarter of the idle connections, at least one, those first that
// were not used for longest: memory is short.
func (p *Pool) Squeeze(now time.Time) []Action {
	const part = 4
	var acts []Action
	for n := (p.idle.Len() + p.idleKeepAlive.Len() + part - 1) / part; n > 0; n-- {
		acts = append(acts, p.evict(p.leastRecentlyUsed(), EvictMemory))
	}
	return p.settle(now, acts)
}

// Ending reports that a connection is ending on its own: ephemeral, retired or
// failed. It counts like one that was asked to, so that nobody else is evicted
// for the place that it is about to give back; Release follows.
func (p *Pool) Ending(now time.Time, id uint64) []Action {
	if l := p.leases[id]; l != nil && l.state != leaseEvicting {
		p.makeBusy(l)
		p.busy.add(l.server, -1)
		p.startEvicting(l)
	}
	return p.settle(now, nil)
}

// Tick does what is due at now: refuses those who waited too long, opens the
// reserve, sweeps idle connections. Calling it too early is harmless.
func (p *Pool) Tick(now time.Time) []Action { return p.settle(now, nil) }

// NextWake returns when Tick has something to do if nothing else happens
// before; ok is false when it never has. The time is after that of the last call
// of another method. It may have passed by now, and then Tick is due.
func (p *Pool) NextWake() (t time.Time, ok bool) {
	earliest := func(c time.Time) {
		if !ok || c.Before(t) {
			t, ok = c, true
		}
	}
	if w := p.waiters.nextToExpire(); w != nil {
		earliest(w.expires)
	}
	if w := p.waiters.oldest(forCall); w != nil && p.reserveFree() {
		earliest(w.since.Add(p.cfg.ReserveAfter))
	}
	if len(p.sweep) > 0 && p.aboveMin() {
		earliest(p.sweep[0].sweepAt)
	}
	return t, ok
}

// Reconfigure takes new parameters over, for those who wait and are idle
// already as well. A pool that became smaller evicts idle connections until it
// fits, at once and as they fall idle; a waiter beyond the new MaxWaiters may
// stay.
func (p *Pool) Reconfigure(now time.Time, cfg PoolConfig) []Action {
	p.cfg = cfg.bounded()
	p.waiters.reschedule(p.expiry)
	for _, idle := range []*list.List{&p.idle, &p.idleKeepAlive} {
		for e := idle.Front(); e != nil; e = e.Next() {
			p.scheduleSweep(e.Value.(*lease))
		}
	}
	return p.settle(now, nil)
}

// Drain empties the pool for good: it refuses all who wait or come later with
// SHUTTING_DOWN and evicts what is idle or falls idle. Stats().Live is 0 once
// everything was released.
func (p *Pool) Drain(now time.Time) []Action {
	p.draining = true
	return p.settle(now, nil)
}

// Stats returns the pool's numbers.
func (p *Pool) Stats() PoolStats {
	idle := p.idle.Len() + p.idleKeepAlive.Len()
	return PoolStats{
		Live:     len(p.leases),
		Busy:     len(p.leases) - idle - p.evicting,
		Idle:     idle,
		Evicting: p.evicting,
		Reserve:  p.reserve.Len(),
		Waiting:  p.waiters.len(),
	}
}

// Config returns the parameters in force.
func (p *Pool) Config() PoolConfig { return p.cfg }

// expiry returns when the first call of w gives up by itself; zero: never.
func (p *Pool) expiry(w *waiter) time.Time {
	t := w.deadline
	if p.cfg.AcquireTimeout > 0 {
		if limit := w.since.Add(p.cfg.AcquireTimeout); t.IsZero() || limit.Before(t) {
			t = limit
		}
	}
	return t
}

func errDraining(server string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeShuttingDown, Server: server, Retryable: true,
		Message: "the host is shutting down and starts no more servers; the call was not carried out",
		Hint:    "Call again once the host has been restarted.",
	}
}

func errTooLate(server string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeExecutionTimeout, Server: server, Retryable: true,
		Message: "the call's deadline passed before a connection could be opened; nothing was sent",
		Hint:    "Call again with a longer timeoutMs.",
	}
}
