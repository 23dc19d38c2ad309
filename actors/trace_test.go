package actors

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// stuck is a writer that takes nothing until it is opened.
type stuck struct{ open chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	<-s.open
	return len(b), nil
}

func TestATraceThatNobodyTakes(t *testing.T) {
	to := stuck{make(chan struct{})}
	sys := kernel.New(slog.New(slog.DiscardHandler))
	watcher := newTrace(sys, nil, nil).Attach(flat{to}, nil)
	for range 2 * traceBuffer {
		watcher.t.Event(&kernel.Event{Actor: "a", Kind: "b", Detail: "c"})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := watcher.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close returns %v, want that its time was over", err)
	}
	close(to.open)
	select {
	case <-watcher.Done():
	case <-time.After(soon):
		t.Error("the writer does not end when somebody reads")
	}
}

// Payloads that wait, and those that are being written, have a bound of their own: few
// records may be very large. What finds no room is counted; what has no payload has room.
func TestATraceHoldsSoManyBytes(t *testing.T) {
	to := stuck{make(chan struct{})}
	trace := newTrace(kernel.New(slog.New(slog.DiscardHandler)), nil, nil)
	trace.ShowPayloads(true)
	out := &shelfOfRecords{}
	watcher := trace.Attach(stuckShelf{to, out}, nil)
	const fit, more = 8, 3
	args := json.RawMessage(`"` + strings.Repeat("x", traceBytes/fit-2) + `"`)
	for range fit + more {
		trace.began(messages.TraceRequest, &messages.Call{Server: "a", Method: methodToolsCall, Tool: "do", Args: args}, "a")
	}
	trace.Message(&kernel.Record{Type: "small"})
	if got := trace.Dropped(); got != more {
		t.Errorf("%d records are dropped, want %d", got, more)
	}
	close(to.open)
	if err := closeWatcher(t, watcher); err != nil {
		t.Fatal(err)
	}
	kinds, count := map[string]int{}, uint64(0)
	for _, r := range out.all() {
		kinds[r.Kind]++
		count += r.Count
	}
	if kinds[messages.TraceRequest] != fit || kinds[messages.TraceMessage] != 1 || count != more {
		t.Errorf("written are %v, and %d are said to be dropped", kinds, count)
	}
	watcher.mu.Lock()
	defer watcher.mu.Unlock()
	if watcher.waiting.bytes != 0 {
		t.Errorf("%d bytes are said to wait", watcher.waiting.bytes)
	}
}

// stuckShelf is a shelf behind a writer that is stuck.
type stuckShelf struct {
	w stuck
	*shelfOfRecords
}

func (h stuckShelf) WriteRecord(r *messages.TraceRecord) error {
	_, _ = h.w.Write(nil)
	return h.shelfOfRecords.WriteRecord(r)
}

// A long payload waits as it is: an actor would copy it. A short one is copied, since it
// may lie in a buffer that many share, or that is much longer.
func TestLongPayloadsAreNotCopied(t *testing.T) {
	trace := newTrace(kernel.New(slog.New(slog.DiscardHandler)), nil, nil)
	trace.ShowPayloads(true)
	var seen json.RawMessage
	watcher := trace.Attach(sink{}, func(r *messages.TraceRecord) bool { seen = r.Payload; return false })
	for _, c := range []struct {
		size int
		same bool
	}{{maxCopied + 1, true}, {maxCopied, false}, {10, false}} {
		text := json.RawMessage(`"` + strings.Repeat("x", c.size-2) + `"`)
		for of, show := range map[string]func(){
			"arguments": func() { trace.began(messages.TraceRequest, &messages.Call{Tool: "do", Args: text}, "") },
			"params":    func() { trace.began(messages.TraceCall, &messages.Call{Method: "resources/read", Params: text}, "") },
			"a result": func() {
				trace.ended(messages.TraceAnswer, &CallReport{Call: &messages.Call{}, Answer: &messages.Answer{Result: text}}, "")
			},
			"an error": func() {
				trace.ended(messages.TraceAnswer, &CallReport{Call: &messages.Call{}, Answer: &messages.Answer{RPCError: text}}, "")
			},
		} {
			show()
			if string(seen) != string(text) || (&seen[0] == &text[0]) != c.same {
				t.Errorf("of %s of %d bytes %d are kept, copied: %v", of, c.size, len(seen), c.same)
			}
		}
	}
	if err := closeWatcher(t, watcher); err != nil {
		t.Error(err)
	}
}

// flat writes a byte for each record.
type flat struct{ w stuck }

func (f flat) WriteRecord(*messages.TraceRecord) error { _, err := f.w.Write([]byte{0}); return err }
func (f flat) Flush() error                            { return nil }

// shelfOfRecords keeps what a watcher writes; err is what it says to the next.
type shelfOfRecords struct {
	mu      sync.Mutex
	records []messages.TraceRecord
	err     error
	wrote   chan struct{} // one for each flush; may be full
}

func (s *shelfOfRecords) WriteRecord(r *messages.TraceRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, *r)
	return s.err
}

func (s *shelfOfRecords) Flush() error {
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return nil
}

func (s *shelfOfRecords) all() []messages.TraceRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]messages.TraceRecord(nil), s.records...)
}

// await returns when messages of these types, sent for the request, are written.
func (s *shelfOfRecords) await(t *testing.T, request uint64, types ...string) {
	t.Helper()
	deadline := time.After(soon)
	for {
		seen := map[string]bool{}
		for _, r := range s.all() {
			seen[r.Type] = seen[r.Type] || r.Request == request && r.Kind == messages.TraceMessage
		}
		missing := slices.DeleteFunc(slices.Clone(types), func(of string) bool { return seen[of] })
		if len(missing) == 0 {
			return
		}
		select {
		case <-s.wrote:
		case <-deadline:
			t.Fatalf("the trace of request %d has no %s", request, strings.Join(missing, ", "))
		}
	}
}

func closeWatcher(t *testing.T, w *Watcher) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return w.Close(ctx)
}

// TestATraceOfACall follows one call from its entry to its answer.
func TestATraceOfACall(t *testing.T) {
	h := newRig(t, nil)
	h.add("a", nil, nil)
	h.ok("a")
	h.e.trace.scrub = func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), "hush", "•")) }
	h.e.trace.scrubJSON = func(raw json.RawMessage) json.RawMessage { return h.e.trace.scrub(raw) }
	h.e.trace.ShowPayloads(true)
	out := &shelfOfRecords{wrote: make(chan struct{}, 1)}
	w := h.e.trace.Attach(out, nil)
	session, err := h.e.OpenSession(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	p := newPort()
	session.Call(&messages.Call{Meta: messages.Meta{Trace: 1 << 40}, ID: 1 << 40, Server: "a", Method: methodToolsCall, Tool: "do", Args: json.RawMessage(`{"word":"hush"}`), Reply: p})
	select {
	case <-p.first:
	case <-time.After(soon):
		t.Fatal("no answer came")
	}
	// A message is told of when its handler is through, so the connection's
	// own record may come after the answer that this handler sent.
	out.await(t, 1<<40, "Call", "Frame", "Answer")
	if err := closeWatcher(t, w); err != nil {
		t.Fatal(err)
	}
	spans := map[uint64]messages.TraceRecord{}
	var request, answer *messages.TraceRecord
	var path []string
	for _, r := range out.all() {
		if r.V != messages.TraceVersion || r.Time.Location() != time.UTC {
			t.Errorf("record %+v", r)
		}
		if r.Kind == messages.TraceMessage {
			if r.Span == 0 || spans[r.Span].Span != 0 {
				t.Errorf("span %d is none or given twice", r.Span)
			}
			spans[r.Span] = r
		}
		if r.Request != 1<<40 {
			continue
		}
		switch r.Kind {
		case messages.TraceRequest:
			request = &r
		case messages.TraceAnswer:
			answer = &r
		case messages.TraceMessage:
			path = append(path, r.Type)
		}
	}
	if request == nil || answer == nil {
		t.Fatalf("request %v, answer %v", request, answer)
	}
	if request.Server != "a" || request.Tool != "do" || request.Bytes != len(`{"word":"hush"}`) || !strings.Contains(string(request.Payload), "•") || strings.Contains(string(request.Payload), "hush") {
		t.Errorf("request %+v", request)
	}
	if answer.Outcome != OutcomeOK || answer.RanNs <= 0 || answer.Bytes == 0 || !strings.HasPrefix(answer.To, "metamcp/session/") {
		t.Errorf("answer %+v", answer)
	}
	if got := strings.Join(path, " "); !strings.Contains(got, "Call") || !strings.Contains(got, "Frame") || !strings.Contains(got, "Answer") {
		t.Errorf("the call passed %s", got)
	}
	for _, r := range spans {
		if parent, ok := spans[r.Parent]; ok && parent.To != r.From {
			t.Errorf("%s was sent by %s in a span of %s", r.Type, r.From, parent.To)
		}
	}
	for _, r := range out.all() {
		if r.Type == "Answer" && (r.From == "" || r.Parent == 0) {
			t.Errorf("nobody sent the answer: %+v", r)
		}
	}
	if h.e.sys.Actors()[0].ID != "metamcp" {
		t.Errorf("the actors are %+v", h.e.sys.Actors())
	}
	if c := h.e.Counts(); c.Total != 1 || c.InFlight != 0 || c.Failed != 0 {
		t.Errorf("counts %+v", c)
	}
}

// TestATraceThatCannotBeWritten lets the disk be full: the trace ends, and
// another one goes on.
func TestATraceThatCannotBeWritten(t *testing.T) {
	sys := kernel.New(slog.New(slog.DiscardHandler))
	trace := newTrace(sys, nil, nil)
	full := &shelfOfRecords{err: errors.New("no space left")}
	good := &shelfOfRecords{wrote: make(chan struct{}, 1)}
	broken := trace.Attach(full, nil)
	other := trace.Attach(good, func(r *messages.TraceRecord) bool { return r.Kind == "wanted" })
	trace.Event(&kernel.Event{Actor: "a", Kind: "wanted"})
	trace.Event(&kernel.Event{Actor: "a", Kind: "other"})
	select {
	case <-good.wrote:
	case <-time.After(soon):
		t.Fatal("nothing was written")
	}
	if err := closeWatcher(t, broken); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("Close returns %v", err)
	}
	trace.Event(&kernel.Event{Actor: "a", Kind: "wanted"})
	if err := closeWatcher(t, other); err != nil {
		t.Error(err)
	}
	if n := len(good.all()); n != 2 {
		t.Errorf("%d records, want the two that were wanted", n)
	}
	if trace.watched() {
		t.Error("somebody watches still")
	}
}

// disk is a shelf that is full until there is room.
type disk struct {
	shelfOfRecords
	tried chan struct{} // gets one for each try while it is full
}

func (d *disk) Resume() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		select {
		case d.tried <- struct{}{}:
		default:
		}
	}
	return d.err
}

// TestATraceGoesOn has a full disk that gets room: nothing is made for it
// meanwhile, and what is missing is said.
func TestATraceGoesOn(t *testing.T) {
	sys := kernel.New(slog.New(slog.DiscardHandler))
	trace := newTrace(sys, nil, nil)
	trace.retry = time.Millisecond
	broke, resumed := make(chan bool, 1), make(chan time.Duration, 1)
	trace.Broke = func(_ error, resumes bool) { broke <- resumes }
	trace.Resumed = func(after time.Duration) { resumed <- after }
	full := &disk{shelfOfRecords{err: errors.New("no space left")}, make(chan struct{}, 1)}
	watcher := trace.Attach(full, nil)
	trace.Event(&kernel.Event{Actor: "a", Kind: "lost"})
	if resumes := receive(t, broke); !resumes {
		t.Error("the trace is said to have ended")
	}
	receive(t, full.tried)
	receive(t, full.tried)
	if trace.watched() {
		t.Error("records are made for a disk that is full")
	}
	full.mu.Lock()
	full.err, full.records = nil, nil
	full.mu.Unlock()
	receive(t, resumed)
	trace.Event(&kernel.Event{Actor: "a", Kind: "seen"})
	if err := closeWatcher(t, watcher); err != nil {
		t.Error(err)
	}
	got := full.all()
	if len(got) != 2 || got[0].Kind != messages.TraceDropped || !strings.Contains(got[0].Detail, "no space left") || got[1].Kind != "seen" {
		t.Errorf("the records are %+v", got)
	}
}

// failing is a writer whose every write waits for what becomes of it, and which goes on
// once there is room.
type failing struct {
	entered chan struct{} // gets one for each write
	outcome chan error
	tried   chan struct{} // gets one for each try without room
	room    atomic.Bool
}

func (f *failing) WriteRecord(*messages.TraceRecord) error {
	f.entered <- struct{}{}
	return <-f.outcome
}

func (f *failing) Flush() error { return nil }

func (f *failing) Resume() error {
	if f.room.Load() {
		return nil
	}
	select {
	case f.tried <- struct{}{}:
	default:
	}
	return errors.New("no space left")
}

// A trace holds nothing of what it could not write while it waits for room, and has all
// of its own room when it goes on.
func TestATraceThatWaitsHoldsNothing(t *testing.T) {
	trace := newTrace(kernel.New(slog.New(slog.DiscardHandler)), nil, nil)
	trace.ShowPayloads(true)
	trace.retry = time.Millisecond
	var watcher *Watcher
	held := make(chan int, 1)
	trace.Resumed = func(time.Duration) {
		watcher.mu.Lock()
		defer watcher.mu.Unlock()
		held <- watcher.waiting.bytes + watcher.writing
	}
	to := &failing{entered: make(chan struct{}, 4), outcome: make(chan error, 1), tried: make(chan struct{}, 1)}
	watcher = trace.Attach(to, nil)
	freed := make(chan struct{}, 2)
	large := func() {
		args := make(json.RawMessage, 2*maxCopied) // which is kept as it is
		runtime.AddCleanup(&args[0], func(freed chan struct{}) { freed <- struct{}{} }, freed)
		trace.began(messages.TraceRequest, &messages.Call{Tool: "do", Args: args}, "")
	}
	trace.Event(&kernel.Event{Kind: "written"})
	receive(t, to.entered)
	trace.Event(&kernel.Event{Kind: "fails"})
	large() // behind it in its batch
	to.outcome <- nil
	receive(t, to.entered)
	large() // waits for the next
	racing := *trace.watchers.Load()
	to.outcome <- errors.New("no space left")
	receive(t, to.tried)
	deadline := time.After(soon)
	for n := 0; n < 2; {
		runtime.GC()
		select {
		case <-freed:
			n++
		case <-to.tried: // the collector may need another turn
		case <-deadline:
			t.Fatalf("%d of two payloads are let go of", n)
		}
	}
	// An actor may have seen the watcher right before it was taken away.
	racing[0].put(&messages.TraceRecord{Detail: "late"})
	to.room.Store(true)
	close(to.outcome)
	if n := receive(t, held); n != 0 {
		t.Errorf("%d bytes are said to be held when it goes on", n)
	}
	if err := closeWatcher(t, watcher); err != nil {
		t.Error(err)
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(soon):
		t.Fatal("what is waited for does not come")
		panic("not reached")
	}
}

// sink takes records and drops them.
type sink struct{}

func (sink) WriteRecord(*messages.TraceRecord) error { return nil }
func (sink) Flush() error                            { return nil }

func BenchmarkTraceMessage(b *testing.B) {
	sys := kernel.New(slog.New(slog.DiscardHandler))
	trace := newTrace(sys, nil, nil)
	w := trace.Attach(sink{}, nil)
	now := time.Now()
	r := kernel.Record{From: "metamcp/pool", To: "metamcp/pool/breaker/a~1", Type: "Call", Span: 1, Parent: 2, Sent: now, Wait: 1, Ran: 1}
	b.ReportAllocs()
	for b.Loop() {
		trace.Message(&r)
	}
	if err := w.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
