package supervision_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// modelLease is what the world knows of a lease. The connection's own view
// (really busy, asked to end) runs ahead of the pool's, as it does with
// mailboxes between them.
type modelLease struct {
	id       uint64
	reserve  bool
	idle     bool // the pool was told so
	keep     bool
	evicting bool
	room     bool // evicted for a waiter
	contact  bool // for contacts alone, and busy
}

// modelSession is a session with its calls or its contacts.
type modelSession struct {
	session uint64
	contact bool
}

// modelWaiter is a session that waits for a ticket.
type modelWaiter struct {
	modelSession
	ticket          uint64
	since, deadline time.Time
	calls           []time.Time // when each of them came
}

func (w *modelWaiter) last() time.Time { return w.calls[len(w.calls)-1] }

// model plays the pool's surroundings and checks every action against a naive
// picture of the pool: slices that are searched from end to end.
type model struct {
	t    *rapid.T
	pool *supervision.Pool
	cfg  supervision.PoolConfig
	now  time.Time

	shrunk   bool // more may live than the configuration allows
	draining bool

	lastTicket uint64
	waiting    []modelWaiter // in order of arrival
	answered   map[uint64]int
	leases     map[uint64]*modelLease
	lru        []uint64 // idle leases, least recently used first
	// passed counts how often other sessions were served on main places since
	// a waiting session's last turn.
	passed map[modelSession]map[modelSession]int
}

func (m *model) apply(acts []supervision.Action) {
	for _, a := range acts {
		switch a := a.(type) {
		case supervision.Grant:
			m.granted(a)
		case supervision.Refuse:
			m.refused(a)
		case supervision.TurnAway:
			m.turnedAway(a)
		case supervision.Evict:
			m.evicted(a)
		}
	}
	m.atRest()
}

func (m *model) answer(ticket uint64) {
	if m.answered[ticket]++; m.answered[ticket] > 1 {
		m.t.Fatalf("ticket %d was answered twice", ticket)
	}
}

// index is where a session waits for a ticket; -1: it does not.
func (m *model) index(ticket uint64, session modelSession) int {
	return slices.IndexFunc(m.waiting, func(w modelWaiter) bool { return w.ticket == ticket && w.modelSession == session })
}

// leave takes one who waits out.
func (m *model) leave(ticket uint64, session modelSession) modelWaiter {
	i := m.index(ticket, session)
	if i < 0 {
		m.t.Fatalf("session %v does not wait for ticket %d", session, ticket)
	}
	w := m.waiting[i]
	m.waiting = slices.Delete(m.waiting, i, i+1)
	if !slices.ContainsFunc(m.waiting, func(o modelWaiter) bool { return o.modelSession == session }) {
		delete(m.passed, session)
	}
	return w
}

// sessions are those that wait for a ticket.
func (m *model) sessions(ticket uint64) (out []modelSession) {
	for _, w := range m.waiting {
		if w.ticket == ticket {
			out = append(out, w.modelSession)
		}
	}
	return out
}

// calls are the tickets that a call waits for.
func (m *model) calls() (n int) {
	for _, ticket := range m.tickets() {
		if slices.ContainsFunc(m.sessions(ticket), func(s modelSession) bool { return !s.contact }) {
			n++
		}
	}
	return n
}

// toEmpty is for how many tickets idle connections may end: for those of calls, and of
// the others for as many as leave a quarter of the places, or one, to other uses.
func (m *model) toEmpty() int {
	most := max(1, m.cfg.Size-max(1, m.cfg.Size/4))
	calls, lent := m.calls(), m.count(func(l *modelLease) bool { return l.contact })
	return calls + min(len(m.tickets())-calls, max(0, most-lent))
}

// tickets are those that somebody waits for.
func (m *model) tickets() (out []uint64) {
	for _, w := range m.waiting {
		if !slices.Contains(out, w.ticket) {
			out = append(out, w.ticket)
		}
	}
	return out
}

func (m *model) granted(g supervision.Grant) {
	m.answer(g.Ticket)
	who := modelSession{g.Client, g.Contact}
	if g.Contact && m.calls() > 0 {
		m.t.Fatalf("ticket %d was granted to a contact while calls wait", g.Ticket)
	}
	for _, w := range m.waiting {
		if w.ticket == g.Ticket && w.modelSession == who {
			break
		}
		if w.modelSession == who {
			m.t.Fatalf("session %v: ticket %d overtook %d", who, g.Ticket, w.ticket)
		}
	}
	if g.Reserve {
		first := slices.IndexFunc(m.waiting, func(w modelWaiter) bool { return !w.contact })
		if first < 0 || m.waiting[first].ticket != g.Ticket {
			m.t.Fatalf("the reserve went to %d, and not to the oldest call", g.Ticket)
		}
		if m.now.Sub(m.waiting[first].since) < m.cfg.ReserveAfter {
			m.t.Fatalf("the reserve opened after %v", m.now.Sub(m.waiting[first].since))
		}
	} else {
		for session, others := range m.passed {
			if session == who || session.contact != who.contact {
				continue
			}
			if others[who]++; others[who] > 1 {
				m.t.Fatalf("session %v was served twice while %v waited", who, session)
			}
		}
	}
	if m.index(g.Ticket, who) < 0 {
		m.t.Fatalf("ticket %d was granted to %v, who does not wait for it", g.Ticket, who)
	}
	for _, session := range m.sessions(g.Ticket) {
		m.leave(g.Ticket, session)
	}
	if m.passed[who] != nil {
		m.passed[who] = map[modelSession]int{} // it had its turn
	}
	if m.leases[g.Lease] != nil {
		m.t.Fatalf("lease %d was given twice", g.Lease)
	}
	m.leases[g.Lease] = &modelLease{id: g.Lease, reserve: g.Reserve, contact: g.Contact}
	if !m.shrunk && len(m.leases) > m.cfg.Size+m.cfg.Reserve {
		m.t.Fatalf("%d live, limit %d+%d", len(m.leases), m.cfg.Size, m.cfg.Reserve)
	}
}

func (m *model) refused(r supervision.Refuse) {
	m.answer(r.Ticket)
	sessions := m.sessions(r.Ticket)
	switch {
	case r.Err.Code == messages.CodeShuttingDown:
		for _, session := range sessions {
			m.leave(r.Ticket, session)
		}
		if !m.draining {
			m.t.Fatalf("%d refused as shutting down", r.Ticket)
		}
	case len(sessions) != 1:
		m.t.Fatalf("%d refused while %v wait for it", r.Ticket, sessions)
	default:
		m.over(m.leave(r.Ticket, sessions[0]), r.Err)
	}
}

// over checks that nobody is refused before its time.
func (m *model) over(w modelWaiter, err *messages.Error) {
	switch err.Code {
	case messages.CodePoolSaturated:
		expired := m.cfg.AcquireTimeout > 0 && m.now.Sub(w.last()) >= m.cfg.AcquireTimeout ||
			!w.deadline.IsZero() && !w.deadline.After(m.now)
		if !expired && len(m.waiting) < m.cfg.MaxWaiters {
			m.t.Fatalf("%d refused too early: %v", w.ticket, err)
		}
	case messages.CodeExecutionTimeout:
		if w.deadline.IsZero() || w.deadline.After(m.now) {
			m.t.Fatalf("%d refused before its deadline", w.ticket)
		}
	default:
		m.t.Fatalf("%d refused with %v", w.ticket, err)
	}
}

// turnedAway is for some calls of one session, after which it waits with the others or
// others do.
func (m *model) turnedAway(a supervision.TurnAway) {
	who := modelSession{a.Client, a.Contact}
	i := m.index(a.Ticket, who)
	if i < 0 {
		m.t.Fatalf("session %v, which does not wait for %d, was turned away", who, a.Ticket)
	}
	w := &m.waiting[i]
	if !w.last().After(a.Before) {
		m.over(m.leave(a.Ticket, who), a.Err)
		if len(m.sessions(a.Ticket)) == 0 {
			m.t.Fatalf("nobody waits for %d, which is not answered", a.Ticket)
		}
		return
	}
	if limit := m.cfg.AcquireTimeout; limit == 0 || m.now.Sub(a.Before) < limit {
		m.t.Fatalf("calls of %d that came at %v were turned away at %v", a.Ticket, a.Before, m.now)
	}
	w.calls = slices.DeleteFunc(w.calls, func(t time.Time) bool { return !t.After(a.Before) })
}

func (m *model) evicted(e supervision.Evict) {
	l := m.leases[e.Lease]
	if l == nil || !l.idle && !l.contact || l.evicting {
		m.t.Fatalf("evicted %+v, which is %+v", e, l)
	}
	if l.contact && (m.calls() == 0 || len(m.lru) > 0) {
		m.t.Fatalf("evicted %+v, with %d idle and calls for %d tickets", e, len(m.lru), m.calls())
	}
	if e.Reason == supervision.EvictForRoom || e.Reason == supervision.EvictShrink {
		for _, id := range m.lru {
			if o := m.leases[id]; id != e.Lease && (!o.keep || l.keep) {
				m.t.Fatalf("evicted %d before %d", e.Lease, id)
			} else if id == e.Lease {
				break
			}
		}
	}
	if l.room = e.Reason == supervision.EvictForRoom; l.room && !m.shrunk {
		if n := m.count(func(l *modelLease) bool { return l.room }); n > m.toEmpty() {
			m.t.Fatalf("%d evictions for %d tickets of %d", n, m.toEmpty(), len(m.tickets()))
		}
	}
	if e.Reason == supervision.EvictIdle && len(m.leases)-m.count(func(l *modelLease) bool { return l.evicting }) <= m.cfg.Min {
		m.t.Fatalf("swept below the minimum")
	}
	m.lru = slices.DeleteFunc(m.lru, func(id uint64) bool { return id == e.Lease })
	l.idle, l.contact, l.evicting = false, false, true
}

func (m *model) count(f func(*modelLease) bool) (n int) {
	for _, l := range m.leases {
		if f(l) {
			n++
		}
	}
	return n
}

// atRest checks what has to hold between two events.
func (m *model) atRest() {
	s := m.pool.Stats()
	evicting := m.count(func(l *modelLease) bool { return l.evicting })
	want := supervision.PoolStats{
		Live: len(m.leases), Idle: len(m.lru), Evicting: evicting, Reserve: s.Reserve,
		Busy: len(m.leases) - len(m.lru) - evicting, Waiting: len(m.tickets()),
	}
	if s != want {
		m.t.Fatalf("stats %+v, want %+v", s, want)
	}
	main := s.Live - s.Reserve
	if main <= m.cfg.Size && s.Live <= m.cfg.Size+m.cfg.Reserve {
		m.shrunk = false
	}
	if !m.shrunk && (main > m.cfg.Size || s.Reserve > m.cfg.Reserve) {
		m.t.Fatalf("%d main and %d reserve places, limits %d and %d", main, s.Reserve, m.cfg.Size, m.cfg.Reserve)
	}
	if s.Waiting > 0 && main < m.cfg.Size {
		m.t.Fatalf("%d wait for %d free places", s.Waiting, m.cfg.Size-main)
	}
	if s.Idle > 0 && evicting < m.toEmpty() {
		m.t.Fatalf("%d of %d who wait may have places emptied, beside %d idle, and only %d evictions", m.toEmpty(), s.Waiting, s.Idle, evicting)
	}
	// Those on the reserve free no place that is waited for.
	if lent := m.count(func(l *modelLease) bool { return l.contact }) - s.Reserve; lent > 0 && evicting < m.calls() {
		m.t.Fatalf("%d calls wait beside %d for contacts and only %d evictions", m.calls(), lent, evicting)
	}
	if s.Reserve > 0 && main < m.cfg.Size {
		m.t.Fatalf("%d on the reserve beside %d free main places", s.Reserve, m.cfg.Size-main)
	}
	if m.draining && (s.Waiting > 0 || s.Idle > 0) {
		m.t.Fatalf("draining with %+v", s)
	}
	for _, w := range m.waiting {
		if limit := m.cfg.AcquireTimeout; limit > 0 && m.now.Sub(w.calls[0]) >= limit+limit/8 {
			m.t.Fatalf("a call of %d waits for %v", w.ticket, m.now.Sub(w.calls[0]))
		}
	}
	if when, ok := m.pool.NextWake(); ok && !when.After(m.now) {
		m.t.Fatalf("next wake %v is not after now %v", when, m.now)
	}
}

// pick draws one of the leases for which f holds; nil when there is none.
func (m *model) pick(f func(*modelLease) bool) *modelLease {
	var ids []uint64
	for id, l := range m.leases {
		if f(l) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return m.leases[rapid.SampledFrom(ids).Draw(m.t, "lease")]
}

func (m *model) acquire() {
	m.lastTicket++
	w := modelWaiter{ticket: m.lastTicket, modelSession: m.session(), since: m.now, calls: []time.Time{m.now}}
	if w.contact {
		m.wait(w)
		m.apply(m.pool.AcquireForContact(m.now, w.ticket, fmt.Sprint("s", w.ticket%4), w.session))
		return
	}
	if rapid.IntRange(0, 3).Draw(m.t, "has deadline") == 0 {
		w.deadline = m.now.Add(time.Duration(rapid.IntRange(-1, 20).Draw(m.t, "deadline")) * time.Second)
	}
	m.wait(w)
	m.apply(m.pool.Acquire(m.now, w.ticket, fmt.Sprint("s", w.ticket%4), w.session, w.deadline))
}

func (m *model) session() modelSession {
	return modelSession{rapid.Uint64Range(1, 3).Draw(m.t, "session"), rapid.Bool().Draw(m.t, "contact")}
}

func (m *model) wait(w modelWaiter) {
	m.waiting = append(m.waiting, w)
	if m.passed[w.modelSession] == nil {
		m.passed[w.modelSession] = map[modelSession]int{}
	}
}

// join has one more call wait for a ticket.
func (m *model) join() {
	if len(m.waiting) == 0 {
		return
	}
	ticket, session := rapid.SampledFrom(m.tickets()).Draw(m.t, "ticket"), m.session()
	if i := m.index(ticket, session); i >= 0 {
		m.waiting[i].calls, m.waiting[i].deadline = append(m.waiting[i].calls, m.now), time.Time{}
	} else {
		m.wait(modelWaiter{ticket: ticket, modelSession: session, since: m.now, calls: []time.Time{m.now}})
	}
	if session.contact {
		m.apply(m.pool.JoinForContact(m.now, ticket, session.session))
		return
	}
	m.apply(m.pool.Join(m.now, ticket, session.session))
}

func (m *model) idle() {
	if l := m.pick(func(l *modelLease) bool { return !l.evicting }); l != nil {
		opts := m.options(l)
		l.idle, l.contact = true, false
		m.lru = append(slices.DeleteFunc(m.lru, func(id uint64) bool { return id == l.id }), l.id)
		m.apply(m.pool.Idle(m.now, l.id, opts))
	}
}

// idleChanged leaves the order as it is.
func (m *model) idleChanged() {
	if l := m.pick(func(l *modelLease) bool { return l.idle && !l.evicting }); l != nil {
		m.apply(m.pool.IdleChanged(m.now, l.id, m.options(l)))
	}
}

func (m *model) options(l *modelLease) supervision.IdleOptions {
	l.keep = rapid.Bool().Draw(m.t, "keep")
	opts := supervision.IdleOptions{KeepAlive: l.keep}
	if rapid.Bool().Draw(m.t, "own timeout") {
		opts.IdleTimeout = time.Duration(rapid.IntRange(1, 9).Draw(m.t, "timeout")) * time.Second
	}
	return opts
}

func (m *model) used() {
	if l := m.pick(func(*modelLease) bool { return true }); l != nil {
		was := l.idle
		l.idle = false
		m.lru = slices.DeleteFunc(m.lru, func(id uint64) bool { return id == l.id })
		if rapid.Bool().Draw(m.t, "contact") {
			l.contact = l.contact || was
			m.apply(m.pool.UsedForContact(m.now, l.id))
			return
		}
		m.apply(m.pool.Used(m.now, l.id))
	}
}

// wanted has a call join a contact.
func (m *model) wanted() {
	if l := m.pick(func(*modelLease) bool { return true }); l != nil {
		l.contact = false
		m.apply(m.pool.Wanted(m.now, l.id))
	}
}

func (m *model) release() {
	if l := m.pick(func(*modelLease) bool { return true }); l != nil {
		m.releaseLease(l)
	}
}

func (m *model) releaseLease(l *modelLease) {
	delete(m.leases, l.id)
	m.lru = slices.DeleteFunc(m.lru, func(id uint64) bool { return id == l.id })
	m.apply(m.pool.Release(m.now, l.id))
}

func (m *model) ending() {
	if l := m.pick(func(l *modelLease) bool { return !l.evicting }); l != nil {
		l.idle, l.contact, l.evicting = false, false, true
		m.lru = slices.DeleteFunc(m.lru, func(id uint64) bool { return id == l.id })
		m.apply(m.pool.Ending(m.now, l.id))
	}
}

func (m *model) refuseEviction() {
	if l := m.pick(func(l *modelLease) bool { return l.evicting }); l != nil {
		l.evicting, l.room = false, false
		if l.contact = rapid.Bool().Draw(m.t, "contact"); l.contact {
			m.apply(m.pool.EvictRefusedForContact(m.now, l.id))
			return
		}
		m.apply(m.pool.EvictRefused(m.now, l.id))
	}
}

func (m *model) withdraw() {
	if len(m.waiting) > 0 {
		ticket := rapid.SampledFrom(m.tickets()).Draw(m.t, "ticket")
		m.answer(ticket)
		for _, session := range m.sessions(ticket) {
			m.leave(ticket, session)
		}
		m.apply(m.pool.Withdraw(m.now, ticket))
	}
}

// tick moves the time to the next wake, or somewhere before it.
func (m *model) tick() {
	d := time.Duration(rapid.IntRange(0, 4000).Draw(m.t, "ms")) * ms
	if when, ok := m.pool.NextWake(); ok && (when.Sub(m.now) < d || rapid.Bool().Draw(m.t, "to the wake")) {
		d = when.Sub(m.now)
	}
	m.now = m.now.Add(d)
	m.apply(m.pool.Tick(m.now))
}

func (m *model) reconfigure() {
	m.cfg = drawConfig(m.t)
	m.shrunk = true // until atRest sees that all is within the limits again
	m.apply(m.pool.Reconfigure(m.now, m.cfg))
}

func drawConfig(t *rapid.T) supervision.PoolConfig {
	return supervision.PoolConfig{
		Size:           rapid.IntRange(1, 5).Draw(t, "size"),
		Reserve:        rapid.IntRange(0, 2).Draw(t, "reserve"),
		ReserveAfter:   time.Duration(rapid.IntRange(0, 5).Draw(t, "reserve after")) * time.Second,
		Min:            rapid.IntRange(0, 3).Draw(t, "min"),
		IdleTimeout:    time.Duration(rapid.IntRange(0, 8).Draw(t, "idle timeout")) * time.Second,
		AcquireTimeout: time.Duration(rapid.IntRange(0, 12).Draw(t, "acquire timeout")) * time.Second,
		MaxWaiters:     rapid.IntRange(1, 8).Draw(t, "max waiters"),
	}
}

// finish ends the world: whoever waits is served as connections end, and a
// pool that was emptied can be filled again.
func (m *model) finish() {
	if m.draining || rapid.Bool().Draw(m.t, "drain") {
		m.draining = true
		m.apply(m.pool.Drain(m.now))
	}
	for len(m.leases) > 0 {
		l := m.pick(func(*modelLease) bool { return true })
		m.releaseLease(l)
	}
	if len(m.waiting) > 0 {
		m.t.Fatalf("%d still wait in an empty pool", len(m.waiting))
	}
	for ticket := uint64(1); ticket <= m.lastTicket; ticket++ {
		if m.answered[ticket] != 1 {
			m.t.Fatalf("ticket %d was answered %d times", ticket, m.answered[ticket])
		}
	}
	if m.draining {
		return
	}
	for range m.cfg.Size {
		before := len(m.leases)
		m.lastTicket++
		m.waiting = append(m.waiting, modelWaiter{ticket: m.lastTicket, modelSession: modelSession{session: 1}, since: m.now, calls: []time.Time{m.now}})
		m.apply(m.pool.Acquire(m.now, m.lastTicket, "s", 1, time.Time{}))
		if len(m.leases) != before+1 {
			m.t.Fatalf("a place was lost: only %d of %d can be granted", before, m.cfg.Size)
		}
	}
}

func TestPoolProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			t: t, cfg: drawConfig(t), now: epoch,
			answered: map[uint64]int{}, leases: map[uint64]*modelLease{}, passed: map[modelSession]map[modelSession]int{},
		}
		m.pool = supervision.NewPool(m.cfg)
		ops := []func(){
			m.acquire, m.acquire, m.acquire, m.acquire, m.join, m.join, m.idle, m.idle, m.idle, m.idleChanged, m.used, m.wanted,
			m.release, m.release, m.ending, m.refuseEviction, m.withdraw, m.tick, m.tick, m.reconfigure,
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			ops[rapid.IntRange(0, len(ops)-1).Draw(t, "op")]()
		}
		m.finish()
	})
}
