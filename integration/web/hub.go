package web

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/metamcp/metamcp/messages"
)

const (
	// ringSize is how many records are kept for pages that come, and for
	// requests that somebody looks at.
	ringSize = 4096
	// maxPayload bounds, in bytes, what a kept record says of arguments and
	// results, which are in it only with --trace-payloads.
	maxPayload = 4 << 10
	// statusPause is the least time between two looks at the host's status,
	// statusEvery the longest, unless looks take long.
	statusPause = 200 * time.Millisecond
	statusEvery = 2 * time.Second
	// statusShare is how much time is left free of looks, as a multiple of what
	// one takes: with thousands of servers that is no short time. statusRest bounds
	// it, for a host that did not answer once.
	statusShare = 9
	statusRest  = 10 * time.Second
	statusTime  = 5 * time.Second // for the host to describe itself
)

// hub watches the host while pages are open, once for all of them, and keeps
// what it last saw.
type hub struct {
	host Host
	log  *slog.Logger
	ctx  context.Context //nolint:containedctx // that of the server: it ends what the hub started
	wg   sync.WaitGroup

	mu      sync.Mutex
	ring    []messages.TraceRecord // the record with number n is at n % ringSize
	next    uint64                 // number of the next record
	status  []byte                 // JSON; nil: none yet
	taken   uint64                 // counts statuses
	changed chan struct{}          // closed at the next change; nil: nobody waits
	pages   int
	watch   *watch // nil: no page is open
	over    bool   // the host has ended
}

// watch is one attachment to the host.
type watch struct{ cancel context.CancelFunc }

func newHub(ctx context.Context, host Host, log *slog.Logger) *hub {
	return &hub{host: host, log: log, ctx: ctx, ring: make([]messages.TraceRecord, 0, 64)}
}

// join begins to watch where nobody did; each page leaves once.
func (h *hub) join() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch == nil && !h.over {
		ctx, cancel := context.WithCancel(h.ctx)
		records, err := h.host.Trace(ctx)
		if err != nil {
			cancel()
			return err
		}
		w := &watch{cancel: cancel}
		h.watch = w
		h.keep(&messages.TraceRecord{V: messages.TraceVersion, Time: time.Now().UTC(), Kind: messages.TraceStart, Detail: "a page began to watch; what happened before is not shown"})
		h.wg.Go(func() { h.follow(ctx, w, records) })
	}
	h.pages++
	return nil
}

func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pages--
	if h.pages == 0 && h.watch != nil {
		h.watch.cancel()
		h.watch = nil
	}
}

// follow keeps the records and statuses of one watch until its context or the
// host ends.
func (h *hub) follow(ctx context.Context, w *watch, records <-chan messages.TraceRecord) {
	due := time.NewTimer(0)
	defer due.Stop()
	var last time.Time   // when the status was looked at
	pause := statusPause // behind that
	soon := false        // that due is set because something happened
	for {
		select {
		case r, more := <-records:
			if !more {
				h.ended(ctx, w)
				return
			}
			if !h.record(w, &r) || soon {
				continue
			}
			soon = true
			due.Reset(max(0, pause-time.Since(last)))
		case <-due.C:
			began := time.Now()
			h.look(ctx, w)
			last, soon = time.Now(), false
			pause = max(statusPause, min(statusShare*last.Sub(began), statusRest))
			due.Reset(max(statusEvery, pause))
		case <-ctx.Done():
			for range records {
				continue // the host closes it soon
			}
			return
		}
	}
}

// record keeps a record and says whether the status may have changed by it.
func (h *hub) record(w *watch, r *messages.TraceRecord) bool {
	// A look at the status is a message, too; showing it would bury the rest.
	if r.Kind == messages.TraceMessage && r.Type == "InspectPool" || r.Kind == messages.TraceStart {
		return false
	}
	if len(r.Payload) > maxPayload {
		r.Payload, _ = json.Marshal(string(r.Payload[:maxPayload]) + "…") // a string always marshals
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch == w {
		h.keep(r)
	}
	return r.Kind != messages.TraceMessage && r.Kind != messages.TraceDropped
}

// keep is called with the lock held.
func (h *hub) keep(r *messages.TraceRecord) {
	if len(h.ring) < ringSize {
		h.ring = append(h.ring, *r)
	} else {
		h.ring[h.next%ringSize] = *r
	}
	h.next++
	h.wake()
}

func (h *hub) wake() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

func (h *hub) look(parent context.Context, w *watch) {
	ctx, cancel := context.WithTimeout(parent, statusTime)
	defer cancel()
	st, err := h.host.Status(ctx)
	var text []byte
	if err == nil {
		text, err = json.Marshal(st)
	}
	if err != nil {
		if parent.Err() == nil {
			h.log.Warn("the web page shows an old status", "error", err)
		}
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watch == w {
		h.status = text
		h.taken++
		h.wake()
	}
}

func (h *hub) ended(ctx context.Context, w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil && h.watch == w {
		h.over = true
		h.wake()
	}
}

// news is what a page has not seen yet.
type news struct {
	records []messages.TraceRecord
	dropped uint64 // records that it never will
	status  []byte // nil: no new one
	over    bool
}

// cursor is how far a page has come.
type cursor struct{ record, status uint64 }

// since returns at most limit records after c, the newest, and moves c.
func (h *hub) since(c *cursor, limit uint64) news {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.record > h.next {
		c.record = 0 // the number is of another host
	}
	n := news{over: h.over}
	first := h.next - min(h.next, limit, uint64(len(h.ring)))
	if c.record < first {
		n.dropped = first - c.record
		c.record = first
	}
	for ; c.record < h.next; c.record++ {
		n.records = append(n.records, h.ring[c.record%ringSize])
	}
	if c.status != h.taken {
		n.status, c.status = h.status, h.taken
	}
	return n
}

// wait returns a channel that is closed when there is news after c.
func (h *hub) wait(c cursor) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	changed := h.changed
	if c.record != h.next || c.status != h.taken || h.over {
		h.wake()
	}
	return changed
}

// request returns what is kept of one request, oldest first.
func (h *hub) request(id uint64) []messages.TraceRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []messages.TraceRecord
	for n := h.next - uint64(len(h.ring)); n < h.next; n++ {
		if r := &h.ring[n%ringSize]; r.Request == id {
			found = append(found, *r)
		}
	}
	return found
}
