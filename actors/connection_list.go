package actors

import (
	"encoding/json"
	"hash/maphash"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Bounds of a tools/list.
const (
	maxPages     = 1000
	maxListBytes = 256 << 20
)

// listing is a tools/list under way. It counts as a request in flight.
type listing struct {
	id      uint64
	pages   [][]byte
	bytes   int
	tools   int
	cursors map[string]bool
	again   bool // the list changed while it was being read
	// announced is how many changes had been announced when it began.
	announced uint64
	changes   uint64 // of which the gauge knew then
	changed   bool   // it is read because it changed
	due       *kernel.Timer
	patience  time.Duration // with the present page
	sent      time.Time     // the request for it
}

// relisting keeps a child that says at every listing that its list has changed
// from being listed all the time: after the first one there is a pause, longer
// while nothing really changes, in which the connection is idle.
//
// There is no listing before the index is done with the last one, and then a pause
// that is as long as that took: the index has one listing of a connection at most
// waiting for it, however large it is, and time for others.
type relisting struct {
	pause  time.Duration // since ended; 0: none
	moving time.Duration // the one after a listing that was another, of several in a row
	ended  time.Time     // the last listing, or what the index had to do with it
	hash   uint64        // of its tools, in whatever order
	read   uint64        // the changes that are in the last one that was good
	before uint64        // and in the one before
	timer  *kernel.Timer // nil: no listing is due
	others bool          // the lists of resources and prompts may have changed as well

	verdict  uint64        // that of the last listing, while it is waited for; 0: it is not
	again    bool          // the list is to be read anew then
	late     *kernel.Timer // when it is waited for no longer
	patience time.Duration // of the last verdict that did not come; 0: they all came
}

const (
	firstPause = time.Second
	lastPause  = time.Minute
	// movingPause is the longest pause of a list that is another one each time.
	movingPause = 10 * time.Second
	// firstPatience and lastPatience bound how long the verdict on a listing is waited
	// for before the list may be read anew without. It comes unless something is broken.
	firstPatience = judgePatience
	lastPatience  = 10 * time.Minute
)

type (
	relistDue  struct{ run uint64 }
	verdictDue struct{ verdict uint64 }
)

func (r *relisting) stop() {
	r.timer.Stop()
	r.late.Stop()
}

var listingSeed = maphash.MakeSeed()

type listDue struct {
	run, id uint64
}

// listChanged takes notice that the child's list is another, or may be. That is counted
// before anything else that the child says is dealt with: who has the answer that comes
// after it finds that the catalog's listing is old.
func (c *connection) listChanged(ctx *kernel.Context) {
	c.gate.announced++
	c.gauge.Changes.Add(1)
	c.onListChanged(ctx)
}

// onRelist reads the list for somebody who waits for it. The pause before the listing of a
// changed list is not for him; a listing that is under way is, where the child has announced
// nothing since it began.
func (c *connection) onRelist(ctx *kernel.Context) {
	if l := c.listing; l == nil || l.changes < c.gauge.Changes.Load() {
		c.list(ctx)
	}
}

// onListChanged reads the list anew, if not now then after a pause.
func (c *connection) onListChanged(ctx *kernel.Context) {
	r := &c.relist
	switch {
	case !c.ready || r.timer != nil:
		return
	case c.listing != nil:
		c.listing.again = true
		return
	case r.verdict != 0:
		r.again = true
		return
	}
	if wait := r.wait(time.Since(r.ended)); wait > 0 {
		r.timer = ctx.After(wait, &relistDue{c.run.n})
		return
	}
	c.list(ctx)
	if c.listing != nil {
		c.listing.changed = true
	}
}

// wait is how long a list that is said to have changed is not read anew, after some quiet.
func (r *relisting) wait(quiet time.Duration) time.Duration {
	if quiet > max(2*r.pause, lastPause) {
		r.pause, r.moving = 0, 0
	}
	return r.pause - quiet
}

func (c *connection) onRelistDue(ctx *kernel.Context, m *relistDue) {
	if c.run == nil || m.run != c.run.n || c.relist.timer == nil {
		return
	}
	c.list(ctx)
	if c.listing != nil {
		c.listing.changed = true
	}
}

// listed sets the pause before the next listing of a list that has changed. That some
// servers give their tools in another order each time is no change.
func (r *relisting) listed(l *listing) {
	var hash uint64
	for _, page := range l.pages {
		index.EachTool(page, func(tool []byte) { hash += maphash.Bytes(listingSeed, tool) })
	}
	switch {
	case !l.changed:
	case hash == r.hash:
		r.pause = longer(r.pause, lastPause)
	default:
		r.moving = longer(r.moving, movingPause)
		r.pause = r.moving
	}
	r.ended, r.hash, r.before, r.read = time.Now(), hash, r.read, l.announced
}

// failed is listed for a listing that the child did not give. It says whether that is tried
// again, after a pause that grows: the child has announced a change since the last one. A
// first listing that fails is a start that failed, which its breaker counts.
func (r *relisting) failed(l *listing) (again bool) {
	r.ended = time.Now()
	return r.unread(l.announced)
}

// refused is failed for the last listing, which the index has not taken.
func (r *relisting) refused() (again bool) {
	announced := r.read
	r.read = r.before
	return r.unread(announced)
}

func (r *relisting) unread(announced uint64) bool {
	const start = 1 // counts as the first change
	r.pause = longer(r.pause, lastPause)
	return announced > max(start, r.read)
}

// longer is the pause after another one.
func longer(pause, most time.Duration) time.Duration {
	return max(firstPause, min(2*pause, most))
}

// awaitVerdict keeps the list from being read anew until the index is done with a
// listing.
func (c *connection) awaitVerdict(ctx *kernel.Context, verdict uint64) {
	c.relist.verdict = verdict
	c.relist.late = ctx.After(c.relist.nextPatience(), &verdictDue{verdict})
}

// judged begins the pause that follows a verdict.
func (r *relisting) judged() {
	r.pause, r.ended = max(r.pause, time.Since(r.ended)), time.Now()
	r.patience = 0
}

// nextPatience is how long the next verdict is waited for.
func (r *relisting) nextPatience() time.Duration {
	return max(firstPatience, min(2*r.patience, lastPatience))
}

// onVerdictDue goes on without a verdict. The wait for it counts as a pause: who waits for
// a listing has waited for long enough.
func (c *connection) onVerdictDue(ctx *kernel.Context, m *verdictDue) {
	if r := &c.relist; r.verdict == m.verdict {
		r.patience = r.nextPatience()
		c.verdictOver(ctx)
	}
}

// verdictOver follows the verdict on the last listing, or the wait for it.
func (c *connection) verdictOver(ctx *kernel.Context) {
	r := &c.relist
	again := r.again
	r.late.Stop()
	r.late, r.verdict, r.again = nil, 0, false
	c.listForGate(ctx)
	if again && c.listing == nil {
		c.onListChanged(ctx)
	}
}

// list reads all pages of the child's tools, once at a time.
func (c *connection) list(ctx *kernel.Context) {
	if !c.ready {
		return
	}
	if c.listing != nil {
		c.listing.again = true
		return
	}
	if c.finishing && len(c.waiters) == 0 {
		c.finish(ctx)
		return
	}
	if c.relist.verdict != 0 {
		c.relist.again = true
		c.stillIdle(ctx)
		return
	}
	if !c.to(ctx, supervision.EventRequestStarted) {
		return
	}
	c.relist.timer.Stop()
	c.relist.timer = nil
	c.listing = &listing{cursors: map[string]bool{}, announced: c.gate.announced, changes: c.gauge.Changes.Load()}
	if c.relist.others {
		c.relist.others = false
		c.othersChanged(ctx)
	}
	c.listPage(ctx, nil)
}

func (c *connection) listPage(ctx *kernel.Context, params []byte) {
	l := c.listing
	l.due.Stop()
	l.patience, l.sent = c.spec.Timeout, time.Now()
	l.id = c.request(ctx, methodToolsList, params, c.onPage)
	l.due = ctx.After(l.patience, &listDue{c.run.n, l.id})
}

func (c *connection) onPage(ctx *kernel.Context, f *messages.Frame) {
	l := c.listing
	if l == nil {
		return
	}
	if !isObject(f.Result) {
		c.onPageRefused(ctx, f)
		return
	}
	l.pages = append(l.pages, f.Result)
	l.bytes += len(f.Result)
	var page struct {
		Next *string `json:"nextCursor"`
	}
	if err := json.Unmarshal(f.Result, &page); err != nil {
		c.failListing(ctx, "its tools/list answer is not understood: "+err.Error(), messages.ListingFailed{})
		return
	}
	l.tools += index.CountTools(f.Result)
	switch {
	case l.tools > index.MaxTools:
		c.endListing(ctx, "more than "+strconv.Itoa(index.MaxTools)+" tools")
	case page.Next == nil:
		c.endListing(ctx, "")
	case l.cursors[*page.Next]:
		c.endListing(ctx, "the cursor "+strconv.Quote(*page.Next)+" came twice")
	case len(l.pages) >= maxPages:
		c.endListing(ctx, "more than "+strconv.Itoa(maxPages)+" pages")
	case l.bytes >= maxListBytes:
		c.endListing(ctx, "more than "+strconv.Itoa(maxListBytes>>20)+" MiB")
	default:
		l.cursors[*page.Next] = true
		params := append([]byte(`{"cursor":`), appendString(nil, *page.Next)...)
		c.listPage(ctx, append(params, '}'))
	}
}

// onPageRefused takes an answer to tools/list that is no result. A server that does not
// know the request, and never said that it has tools, has none. Those that say nothing and
// have tools are asked as all others.
func (c *connection) onPageRefused(ctx *kernel.Context, f *messages.Frame) {
	refused, unknown := isRPCError(f.Error), isUnknownMethod(f.Error)
	silent := !c.hs.offers.Has(messages.OffersTools)
	if unknown && silent {
		c.listing.pages = append(c.listing.pages, []byte(`{"tools":[]}`))
		c.endListing(ctx, "")
		return
	}
	why := "its answer to tools/list is no result"
	if f.Error != nil {
		why = rpcErrorText(f.Error)
	}
	c.failListing(ctx, why, messages.ListingFailed{Toolless: unknown || refused && silent})
}

func (c *connection) onListDue(ctx *kernel.Context, m *listDue) {
	if c.run == nil || m.run != c.run.n || c.listing == nil || c.listing.id != m.id {
		return
	}
	delete(c.internal, m.id)
	c.sendInternal(ctx, cancelledLine(m.id, "timed out"))
	why := "it did not answer tools/list within " + c.listing.patience.Round(time.Millisecond).String()
	c.failListing(ctx, why, messages.ListingFailed{Evidence: messages.Evidence{Timeout: true}})
	if c.ping == nil && c.ready {
		c.sendPing(ctx)
	}
}

// endListing hands the pages to the index.
func (c *connection) endListing(ctx *kernel.Context, truncated string) {
	l := c.takeListing()
	c.relist.listed(l)
	verdict := c.judge(ctx, l)
	c.sys.Send(c.deps.index, &messages.Listing{
		Server: c.spec.Name, Instance: c.instance, Pages: l.pages, Truncated: truncated,
		Era: c.hs.era, Version: c.hs.version, SpecHash: c.spec.Hash,
		ServerName: c.hs.name, ServerVersion: c.hs.childVer, Instructions: c.hs.instr, Offers: c.hs.offers, Verdict: verdict, Changes: l.changes,
	})
	c.awaitVerdict(ctx, verdict)
	c.afterListing(ctx, l)
}

// failListing tells the breaker that there are no pages, and why. m has what is known of
// that beside the words.
func (c *connection) failListing(ctx *kernel.Context, why string, m messages.ListingFailed) {
	l := c.takeListing()
	if c.relist.failed(l) && (!m.Toolless || c.relist.read > 0) { // else it may have none
		l.again = true
	}
	ev := &m.Evidence
	if ev.Err == nil && ev.Text == "" && ev.HTTPStatus == 0 {
		ev.Text = why
	}
	ev.Remote, ev.Limits = ev.Remote || c.spec.URL != "", c.spec.Limits
	ev.Log = c.said()
	m.Instance, m.Sent, m.Answered, m.Changes = c.instance, l.sent, c.answered, l.changes
	ctx.Send(c.parent, &m)
	c.gateFailed(ctx, why)
	c.afterListing(ctx, l)
}

// takeListing is the end of the listing that is under way.
func (c *connection) takeListing() *listing {
	l := c.listing
	l.due.Stop()
	c.listing = nil
	return l
}

// afterListing goes on with what waited for the end of a listing.
func (c *connection) afterListing(ctx *kernel.Context, l *listing) {
	if l.again {
		c.onListChanged(ctx)
	}
	c.listForGate(ctx)
	if len(c.waiters) > 0 && !c.gated(c.waiters[0]) {
		c.serveWaiters(ctx) // nothing is held back any more, and no verdict will come
	}
	c.idleIfDone(ctx)
}
