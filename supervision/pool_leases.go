package supervision

import (
	"container/heap"
	"container/list"
	"fmt"
	"strings"
	"time"
)

// leaseState is what the pool knows of a connection.
type leaseState uint8

const (
	leaseBusy     leaseState = iota // connecting or in use
	leaseIdle                       // may be evicted
	leaseEvicting                   // was asked to end, or ends on its own
)

// lease is a place that is taken.
type lease struct {
	id     uint64
	server string
	state  leaseState

	onReserve *list.Element // in Pool.reserve; nil: on a main place
	onContact *list.Element // in Pool.contacts; nil: it is not for contacts alone, or not busy

	// The rest is set while it is idle.
	opts       IdleOptions
	since      time.Time
	idleSeq    uint64        // order of falling idle
	order      *list.Element // in Pool.idle or Pool.idleKeepAlive
	sweepAt    time.Time
	sweepIndex int // in Pool.sweep; -1: it has no timeout
}

func (l *lease) due() time.Time { return l.sweepAt }
func (l *lease) rank() uint64   { return l.idleSeq }
func (l *lease) setIndex(i int) { l.sweepIndex = i }

// idleList returns the list that an idle lease with these options stands in.
func (p *Pool) idleList(opts IdleOptions) *list.List {
	if opts.KeepAlive {
		return &p.idleKeepAlive
	}
	return &p.idle
}

// makeIdle puts a busy or idle lease at the most recently used end.
func (p *Pool) makeIdle(l *lease, now time.Time, opts IdleOptions) {
	p.makeBusy(l)
	p.takeFromContacts(l)
	p.busy.add(l.server, -1)
	p.lastIdle++
	l.state, l.opts, l.since, l.idleSeq = leaseIdle, opts, now, p.lastIdle
	if !opts.Since.IsZero() {
		l.since = opts.Since
	}
	l.order = p.idleList(opts).PushBack(l)
	p.scheduleSweep(l)
}

// reorder gives an idle lease other options, and the place among those of its
// kind that it would have with them.
func (p *Pool) reorder(l *lease, opts IdleOptions) {
	from, to := p.idleList(l.opts), p.idleList(opts)
	l.opts = opts
	if from != to {
		from.Remove(l.order)
		before := to.Back()
		for before != nil && before.Value.(*lease).idleSeq > l.idleSeq {
			before = before.Prev()
		}
		if before == nil {
			l.order = to.PushFront(l)
		} else {
			l.order = to.InsertAfter(l, before)
		}
	}
	p.scheduleSweep(l)
}

// makeBusy takes a lease out of whatever state it is in.
func (p *Pool) makeBusy(l *lease) {
	switch l.state {
	case leaseBusy:
		return
	case leaseIdle:
		p.leaveIdle(l)
	case leaseEvicting:
		p.evicting--
		if l.onReserve == nil {
			p.evictingMain--
		}
	}
	l.state = leaseBusy
	p.busy.add(l.server, 1)
}

// evict turns a lease that is idle, or for contacts alone, into an evicting one.
func (p *Pool) evict(l *lease, reason EvictReason) Evict {
	if l.state == leaseIdle {
		p.leaveIdle(l)
	} else {
		p.busy.add(l.server, -1)
	}
	p.startEvicting(l)
	return Evict{Lease: l.id, Server: l.server, Reason: reason}
}

// lendToContacts marks a busy lease as one for contacts alone.
func (p *Pool) lendToContacts(l *lease) { l.onContact = p.contacts.PushBack(l) }

// takeFromContacts ends that.
func (p *Pool) takeFromContacts(l *lease) {
	if l.onContact != nil {
		p.contacts.Remove(l.onContact)
		l.onContact = nil
	}
}

func (p *Pool) startEvicting(l *lease) {
	p.takeFromContacts(l)
	l.state = leaseEvicting
	p.evicting++
	if l.onReserve == nil {
		p.evictingMain++
	}
}

func (p *Pool) leaveIdle(l *lease) {
	p.idleList(l.opts).Remove(l.order)
	l.order = nil
	if l.sweepIndex >= 0 {
		heap.Remove(&p.sweep, l.sweepIndex)
	}
}

// scheduleSweep sets when the sweep takes an idle lease, by its options and
// the pool's present configuration.
func (p *Pool) scheduleSweep(l *lease) {
	if l.sweepIndex >= 0 {
		heap.Remove(&p.sweep, l.sweepIndex)
	}
	timeout := l.opts.IdleTimeout
	if timeout <= 0 && !l.opts.KeepAlive {
		timeout = p.cfg.IdleTimeout
	}
	if timeout > 0 {
		l.sweepAt = l.since.Add(timeout)
		heap.Push(&p.sweep, l)
	}
}

// leastRecentlyUsed returns the idle lease that goes first, one that is kept
// alive only where there is no other; nil when none is idle.
func (p *Pool) leastRecentlyUsed() *lease {
	for _, idle := range []*list.List{&p.idle, &p.idleKeepAlive} {
		if e := idle.Front(); e != nil {
			return e.Value.(*lease)
		}
	}
	return nil
}

// holders counts the busy places of each server and names those with most.
// The text is kept until a count changes, so that a flood of refusals does
// not count again for each.
type holders struct {
	count map[string]int
	text  string
	fresh bool
}

// namedHolders is how many servers an error names.
const namedHolders = 3

func newHolders() holders { return holders{count: map[string]int{}} }

func (h *holders) add(server string, n int) {
	h.fresh = false
	if h.count[server] += n; h.count[server] <= 0 {
		delete(h.count, server)
	}
}

// top returns the servers with most busy places, "a (3), b (2), c (1)"; of
// equal ones the first by name.
func (h *holders) top() string {
	if h.fresh {
		return h.text
	}
	var best [namedHolders]string
	before := func(a, b string) bool {
		if b == "" {
			return true
		}
		if h.count[a] != h.count[b] {
			return h.count[a] > h.count[b]
		}
		return a < b
	}
	for server := range h.count {
		for i := range best {
			if before(server, best[i]) {
				copy(best[i+1:], best[i:])
				best[i] = server
				break
			}
		}
	}
	var parts []string
	for _, server := range best {
		if server != "" {
			parts = append(parts, fmt.Sprintf("%s (%d)", server, h.count[server]))
		}
	}
	h.text, h.fresh = strings.Join(parts, ", "), true
	return h.text
}
