package front

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// A client of the newer protocol is asked with the answer to its own request, and
// sends that once more with what it was asked for. What a server of that protocol
// asked goes through as it came, but for its state, which is bound to the request
// here. Where a server of the older protocol asks, its call goes on without a
// request, parked, until the next one takes it over.

const (
	// maxParked bounds what is parked in a host, maxParkedOfOne of one principal,
	// whatever names its clients give themselves, and maxParkedEach of one owner.
	maxParked      = 1024
	maxParkedOfOne = 256
	maxParkedEach  = 64
	// parkedFor is how long a parked call waits for its client.
	parkedFor = 10 * time.Minute

	// What the states begin with that we give out.
	parkedPrefix = "p1."
	boundPrefix  = "c1."
)

// Parked are the calls that wait for clients of the newer protocol. Fronts of one
// host share one, so that a request may come another way than the one before. It is
// safe for use from any goroutine.
type Parked struct {
	key   [32]byte // of the states that are bound
	spent spent    // the numbers of these
	mark  string   // what the ids of questions begin with
	mu    sync.Mutex
	works map[string]*work // by their handles
	each  map[string]int   // by owner
	of    map[string]int   // by principal
}

// NewParked returns an empty table.
func NewParked() *Parked {
	p := &Parked{mark: newMark(), works: map[string]*work{}, each: map[string]int{}, of: map[string]int{}}
	_, _ = rand.Read(p.key[:]) // it never fails
	return p
}

// work is a call that outlives the request that began it. Its fields are guarded by
// the table.
type work struct {
	c       *connection // that began it
	first   *Entry      // which began it
	owner   string
	binding [sha256.Size]byte
	handle  string // while it is parked, else ""

	now   *Entry // the request in flight that gets the answer; nil: it is parked
	nowC  *connection
	queue []*messages.Question // that have no answer yet
	done  func(e *Entry)       // writes the answer, where it came while it was parked
	over  bool
	timer *time.Timer
	free  func() // that of first: its message is there for as long as the call is
}

// owner is who may take over what is parked here.
func (c *connection) owner() string {
	if c.opts.Owner != "" {
		return c.opts.Owner
	}
	return c.peer.id
}

// principalOf is whom an owner belongs to; see scopeOf.
func principalOf(owner string) string {
	principal, _, _ := strings.Cut(owner, "\x00")
	return principal
}

// park asks a client of the newer protocol.
func (c *connection) park(e *Entry, list []*messages.Question) {
	p := c.opts.Parked
	p.mu.Lock()
	w, why := e.work, c.untaken
	open := len(list)
	if w != nil {
		open += len(w.queue)
	}
	switch {
	case why != "":
	case open > maxQuestions:
		why = strconv.Itoa(maxQuestions) + " questions are open at this client already"
	case w == nil:
		w, why = p.add(c, e)
	case w.over:
		why = "the call is over"
	}
	if why != "" {
		p.mu.Unlock()
		for _, q := range list {
			noAnswer(q, why)
		}
		return
	}
	w.queue = append(w.queue, list...)
	show := p.show(w)
	p.mu.Unlock()
	show()
}

// add makes the work of a request one that can be parked. p.mu is held.
func (p *Parked) add(c *connection, e *Entry) (w *work, why string) {
	owner := c.owner()
	sum, ok := binding(e.params)
	full := func(whose string, most int) string {
		return strconv.Itoa(most) + " calls wait for answers of " + whose + " already, which is the most"
	}
	switch {
	case !ok:
		return nil, "the request cannot be asked about"
	case p.each[owner] >= maxParkedEach:
		return nil, full("this client", maxParkedEach)
	case p.of[principalOf(owner)] >= maxParkedOfOne:
		return nil, full("clients with this token or certificate, or without one", maxParkedOfOne)
	case len(p.works) >= maxParked:
		return nil, full("all clients of this host together", maxParked)
	}
	w = &work{c: c, first: e, owner: owner, binding: sum, now: e, nowC: c}
	c.mu.Lock()
	live := c.table.Live(e)
	if live {
		w.free, e.free = e.free, nil
	}
	c.mu.Unlock()
	if !live {
		return nil, "the call is over"
	}
	e.work = w
	p.each[owner]++
	p.of[principalOf(owner)]++
	return w, ""
}

// show ends the request in flight of a work that has questions, with them. What is
// returned writes that; it is called without the lock. p.mu is held.
func (p *Parked) show(w *work) func() {
	e, c := w.now, w.nowC
	if e == nil || len(w.queue) == 0 {
		return func() {}
	}
	if !c.finish(e) {
		if e == w.first {
			p.drop(w) // it was over before it was parked
		}
		return func() {}
	}
	w.now, w.nowC = nil, nil
	var handle [16]byte
	_, _ = rand.Read(handle[:]) // it never fails
	w.handle = base64.RawURLEncoding.EncodeToString(handle[:])
	p.works[w.handle] = w
	parked := w.handle
	w.timer = time.AfterFunc(parkedFor, func() { p.expire(w, parked, "the client did not answer in time") })
	result := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, q := range w.queue {
		if i > 0 {
			result = append(result, ',')
		}
		result = append(append(result, p.questionID(q)...), `:{"method":`...)
		result = jsonrpc.AppendQuote(result, q.Method)
		if q.Params != nil {
			result = append(append(result, `,"params":`...), q.Params...)
		}
		result = append(result, '}')
	}
	result = append(result, `},"requestState":"`+parkedPrefix+w.handle+`"}`...)
	return func() {
		_ = e.out.Answer(AppendResult(nil, e.ID, result, e.Era, c.opts.ServerInfo)) // the session ends when the output fails
		if e.Stop == nil {
			c.running.Done()
		}
	}
}

// unpark takes questions back.
func (c *connection) unpark(e *Entry, list []*messages.Question) {
	p := c.opts.Parked
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.work == nil {
		return
	}
	e.work.queue = slices.DeleteFunc(e.work.queue, func(q *messages.Question) bool {
		return slices.ContainsFunc(list, func(other *messages.Question) bool { return other.ID == q.ID })
	})
}

// heir is the request in flight that has taken over what e began; nil: there is
// none.
func (c *connection) heir(e *Entry) *Entry {
	if e.Era != messages.EraModern {
		return nil
	}
	p := c.opts.Parked
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.work == nil {
		return nil
	}
	return e.work.now
}

// finished gives the answer to a request that is over to the one that took its work
// over, or keeps it for the next one.
func (c *connection) finished(e *Entry, write func(e *Entry)) {
	if e.Era != messages.EraModern {
		return
	}
	p := c.opts.Parked
	p.mu.Lock()
	w := e.work
	if w == nil || w.over || w.done != nil {
		p.mu.Unlock()
		return
	}
	now, nowC := w.now, w.nowC
	if now == nil {
		w.done = write // until the end of the timer
		p.mu.Unlock()
		return
	}
	p.drop(w)
	p.mu.Unlock()
	if nowC.finish(now) {
		write(now)
		if now.Stop == nil {
			nowC.running.Done()
		}
	}
}

// drop forgets a work. p.mu is held.
func (p *Parked) drop(w *work) {
	if w.over {
		return
	}
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.free != nil {
		w.free()
	}
	delete(p.works, w.handle)
	if p.each[w.owner]--; p.each[w.owner] == 0 {
		delete(p.each, w.owner)
	}
	principal := principalOf(w.owner)
	if p.of[principal]--; p.of[principal] == 0 {
		delete(p.of, principal)
	}
}

// expire gives up a work that is parked. A timer that could not be stopped any more
// names the handle that was its own, since the work may be parked anew meanwhile; ""
// is whichever it has.
func (p *Parked) expire(w *work, handle, why string) {
	p.mu.Lock()
	if w.over || w.now != nil || handle != "" && w.handle != handle {
		p.mu.Unlock()
		return
	}
	p.drop(w)
	queue, done := w.queue, w.done
	w.queue = nil
	p.mu.Unlock()
	for _, q := range queue {
		noAnswer(q, why)
	}
	if done == nil {
		w.giveUp(why)
	}
}

// giveUp ends the call itself.
func (w *work) giveUp(why string) {
	if w.first.Stop != nil {
		w.first.Stop()
		return
	}
	w.first.cancelled.Store(true)
	w.c.opts.Engine.Cancel(w.c.opts.Session, w.first.Call, why)
}

// begun is the work that a request took over, which the front that began it has to
// end; nil: it took none over.
func (c *connection) begun(e *Entry) *work {
	if e.Era != messages.EraModern {
		return nil
	}
	p := c.opts.Parked
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.work == nil || e.work.first == e {
		return nil
	}
	p.drop(e.work)
	return e.work
}

// waiting is how many calls a connection has begun and are parked.
func (c *connection) waiting() (n int) {
	p := c.opts.Parked
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.works {
		if w.c == c {
			n++
		}
	}
	return n
}

// endParked gives up what a connection has begun and is parked, and lets nothing be
// parked any more. It may be called again; the first reason stays.
func (c *connection) endParked(why string) {
	p := c.opts.Parked
	p.mu.Lock()
	c.untaken = cmp.Or(c.untaken, why)
	mine := slices.DeleteFunc(slices.Collect(maps.Values(p.works)), func(w *work) bool { return w.c != c })
	p.mu.Unlock()
	for _, w := range mine {
		p.expire(w, "", why)
	}
}

// takeOver lets a request go on with what an earlier one began, if it brings the
// state of one. It reports false where it brings none, and the request is to be
// begun.
func (c *connection) takeOver(in *incoming, era messages.Era, out sink) (e *Entry, taken bool) {
	state, err := jsonrpc.Unquote(in.slots[slotState])
	if era != messages.EraModern || err != nil || !strings.HasPrefix(state, parkedPrefix) {
		return nil, false
	}
	p := c.opts.Parked
	handle := state[len(parkedPrefix):]
	p.mu.Lock()
	w := p.works[handle]
	sum, ok := binding(in.Params)
	if w == nil || !ok || w.owner != c.owner() || !hmac.Equal(w.binding[:], sum[:]) {
		p.mu.Unlock()
		refuse(out, in.ID, codeParams, staleState)
		return nil, true
	}
	e = &Entry{ID: in.ID, Call: w.first.Call, Token: in.token(), Era: era, Stop: w.first.Stop, Parse: in.number, out: out, params: in.Params, work: w, passed: w.first.passed, exposedAs: w.first.exposedAs, reads: w.first.reads}
	if e.key = c.keyOf(e); e.key != "" {
		e.key += " " + w.handle // its number is that of the first request
	}
	if !c.register(e, in) {
		p.mu.Unlock()
		return nil, true
	}
	if e.Stop != nil {
		c.running.Done() // who works on it is counted already
	}
	w.timer.Stop()
	delete(p.works, w.handle)
	w.handle = ""
	type reply struct {
		q   *messages.Question
		raw json.RawMessage
	}
	var replies []reply
	w.queue = slices.DeleteFunc(w.queue, func(q *messages.Question) bool {
		raw := jsonrpc.Get(in.slots[slotResponses], p.mark+strconv.FormatUint(q.ID, 10))
		if len(raw) == 0 || raw[0] != '{' {
			return false // it is asked once more
		}
		replies = append(replies, reply{q, raw})
		return true
	})
	if write := w.done; write != nil {
		left := w.queue
		w.queue = nil
		p.drop(w)
		p.mu.Unlock()
		for _, q := range left {
			noAnswer(q, "the call is over")
		}
		if c.finish(e) {
			write(e)
			if e.Stop == nil {
				c.running.Done()
			}
		}
	} else {
		w.now, w.nowC = e, c
		show := p.show(w)
		p.mu.Unlock()
		show()
	}
	for _, r := range replies {
		r.q.Reply.Answered(&messages.QuestionAnswer{Question: r.q.ID, Result: r.raw})
	}
	return e, true
}

// staleState is for a state that is nobody's, or somebody else's. Which of these it is
// cannot be told of one that an earlier host gave out or that was used, and the call to
// which it belongs may have been carried out, so none of them hears that it was not.
const staleState = "the requestState is not one that was given out for this very call, was used already, or its time is over; this request did nothing, but the outcome of the call that the state belongs to is unknown: see whether that was carried out before you make it anew, without requestState and inputResponses"
