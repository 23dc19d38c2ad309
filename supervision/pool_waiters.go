package supervision

import (
	"container/heap"
	"container/list"
	"slices"
	"time"
)

// kind says what somebody wants a place for.
type kind uint8

const (
	forCall    kind = iota
	forContact      // the server's tools alone
	kinds      int  = iota
)

// waiter is a client that waits for the place of a ticket. Several may for one.
type waiter struct {
	ticket   uint64
	server   string
	client   uint64
	kind     kind
	since    time.Time
	last     time.Time // when its newest call for the ticket came
	deadline time.Time // its own; zero: none
	expires  time.Time // when it gives up; zero: never

	seq         uint64        // order of arrival
	age         *list.Element // in waitQueue.byAge
	turn        *list.Element // in clientQueue.waiters
	expireIndex int           // in waitQueue.byExpiry; -1: never expires
}

func (w *waiter) due() time.Time { return w.expires }
func (w *waiter) rank() uint64   { return w.seq }
func (w *waiter) setIndex(i int) { w.expireIndex = i }

// waitQueue holds those who wait in three orders: by age, by the time when
// they give up, and by turn, which is round robin over the clients and first
// come, first served within each. However many calls of one client wait, they
// delay another client's next call by one place only. A ticket for which several
// clients wait has a turn of each, and the first that comes is that of all.
// Contacts come behind all calls, and have turns of their own.
type waitQueue struct {
	byTicket map[uint64][]*waiter
	called   map[uint64]int // how many wait for a ticket for calls, where any does
	lastSeq  uint64
	byAge    [kinds]list.List
	byExpiry timeHeap[*waiter]
	clients  [kinds]map[uint64]*clientQueue
	turns    [kinds]list.List // of *clientQueue; the front is served next
}

// clientQueue is one client's waiters of a kind; it exists while there are any.
type clientQueue struct {
	waiters list.List
	turn    *list.Element
}

func newWaitQueue() waitQueue {
	return waitQueue{
		byTicket: map[uint64][]*waiter{}, called: map[uint64]int{},
		clients: [kinds]map[uint64]*clientQueue{{}, {}},
	}
}

// len is how many places are waited for.
func (q *waitQueue) len() int { return len(q.byTicket) }

// room is how many wait for them.
func (q *waitQueue) room() int { return q.byAge[forCall].Len() + q.byAge[forContact].Len() }

// calls is how many places are waited for by a call at least.
func (q *waitQueue) calls() int { return len(q.called) }

func (q *waitQueue) has(ticket uint64) bool { return len(q.byTicket[ticket]) > 0 }

// of returns the client that waits for a ticket for something of a kind; nil: it does not.
func (q *waitQueue) of(ticket, client uint64, what kind) *waiter {
	for _, w := range q.byTicket[ticket] {
		if w.client == client && w.kind == what {
			return w
		}
	}
	return nil
}

func (q *waitQueue) push(w *waiter) {
	q.byTicket[w.ticket] = append(q.byTicket[w.ticket], w)
	q.lastSeq++
	w.seq = q.lastSeq
	if w.kind == forCall {
		q.called[w.ticket]++
	}
	w.age = q.byAge[w.kind].PushBack(w)
	w.expireIndex = -1
	q.schedule(w, w.expires)
	s := q.clients[w.kind][w.client]
	if s == nil {
		s = &clientQueue{}
		s.turn = q.turns[w.kind].PushBack(s)
		q.clients[w.kind][w.client] = s
	}
	w.turn = s.waiters.PushBack(w)
}

// oldest returns who has waited longest for something of a kind; nil when nobody does.
func (q *waitQueue) oldest(what kind) *waiter {
	if e := q.byAge[what].Front(); e != nil {
		return e.Value.(*waiter)
	}
	return nil
}

// any returns one who waits; nil when nobody does.
func (q *waitQueue) any() *waiter {
	if w := q.oldest(forCall); w != nil {
		return w
	}
	return q.oldest(forContact)
}

// next returns whose turn it is; nil when nobody waits.
func (q *waitQueue) next() *waiter {
	for what := range q.turns {
		if e := q.turns[what].Front(); e != nil {
			return e.Value.(*clientQueue).waiters.Front().Value.(*waiter)
		}
	}
	return nil
}

// nextToExpire returns who gives up first; nil when nobody ever does.
func (q *waitQueue) nextToExpire() *waiter {
	if len(q.byExpiry) > 0 {
		return q.byExpiry[0]
	}
	return nil
}

// served removes a waiter that got its place, and all who waited for the same: its
// client has had its turn.
func (q *waitQueue) served(w *waiter) {
	if s := q.clients[w.kind][w.client]; s != nil {
		q.turns[w.kind].MoveToBack(s.turn)
	}
	q.withdraw(w.ticket)
}

func (q *waitQueue) withdraw(ticket uint64) {
	all := q.byTicket[ticket]
	delete(q.byTicket, ticket)
	for _, w := range all {
		q.drop(w)
	}
}

// schedule sets when a waiter gives up; zero: never.
func (q *waitQueue) schedule(w *waiter, expires time.Time) {
	if w.expireIndex >= 0 {
		heap.Remove(&q.byExpiry, w.expireIndex)
	}
	if w.expires = expires; !expires.IsZero() {
		heap.Push(&q.byExpiry, w)
	}
}

// remove takes a waiter out without touching the order of turns.
func (q *waitQueue) remove(w *waiter) {
	left := slices.DeleteFunc(q.byTicket[w.ticket], func(o *waiter) bool { return o == w })
	if q.byTicket[w.ticket] = left; len(left) == 0 {
		delete(q.byTicket, w.ticket)
	}
	q.drop(w)
}

// drop takes a waiter out of all but byTicket.
func (q *waitQueue) drop(w *waiter) {
	if w.kind == forCall {
		if q.called[w.ticket]--; q.called[w.ticket] == 0 {
			delete(q.called, w.ticket)
		}
	}
	q.byAge[w.kind].Remove(w.age)
	if w.expireIndex >= 0 {
		heap.Remove(&q.byExpiry, w.expireIndex)
	}
	s := q.clients[w.kind][w.client]
	s.waiters.Remove(w.turn)
	if s.waiters.Len() == 0 {
		q.turns[w.kind].Remove(s.turn)
		delete(q.clients[w.kind], w.client)
	}
}

// displace removes the newest waiter of the client that has most of them, for one
// of a client that would not have as many; nil: there is none such. A contact gives way
// to every call, and no call to a contact.
func (q *waitQueue) displace(client uint64, what kind) *waiter {
	if e := q.byAge[forContact].Back(); e != nil && what == forCall {
		w := e.Value.(*waiter)
		q.remove(w)
		return w
	}
	var most *clientQueue
	for e := q.turns[what].Front(); e != nil; e = e.Next() {
		if s := e.Value.(*clientQueue); most == nil || s.waiters.Len() > most.waiters.Len() {
			most = s
		}
	}
	mine := 0
	if s := q.clients[what][client]; s != nil {
		mine = s.waiters.Len()
	}
	if most == nil || most.waiters.Len() <= mine+1 {
		return nil
	}
	w := most.waiters.Back().Value.(*waiter)
	q.remove(w)
	return w
}

// reschedule computes anew when each waiter gives up.
func (q *waitQueue) reschedule(expiry func(*waiter) time.Time) {
	clear(q.byExpiry)
	q.byExpiry = q.byExpiry[:0]
	for what := range q.byAge {
		for e := q.byAge[what].Front(); e != nil; e = e.Next() {
			w := e.Value.(*waiter)
			w.expireIndex = -1
			q.schedule(w, expiry(w))
		}
	}
}

// timed is an element of a [timeHeap]; it keeps its own index, -1 outside.
type timed interface {
	due() time.Time
	rank() uint64 // of those due at once the lowest is first
	setIndex(i int)
}

// timeHeap is a heap.Interface whose first element is due first.
type timeHeap[T timed] []T

func (h timeHeap[T]) Len() int { return len(h) }

func (h timeHeap[T]) Less(i, j int) bool {
	if c := h[i].due().Compare(h[j].due()); c != 0 {
		return c < 0
	}
	return h[i].rank() < h[j].rank()
}

func (h timeHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].setIndex(i)
	h[j].setIndex(j)
}

// Push appends an element, for container/heap alone.
func (h *timeHeap[T]) Push(x any) {
	e := x.(T)
	e.setIndex(len(*h))
	*h = append(*h, e)
}

// Pop takes the last element off, for container/heap alone.
func (h *timeHeap[T]) Pop() any {
	old := *h
	e := old[len(old)-1]
	var none T
	old[len(old)-1] = none
	*h = old[:len(old)-1]
	e.setIndex(-1)
	return e
}
