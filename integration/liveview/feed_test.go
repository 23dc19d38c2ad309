package liveview

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// host is a fake: it sends what a test tells it to.
type host struct {
	records chan messages.TraceRecord // closed: the host ends
	lost    error                     // with which it ends then
	closed  atomic.Int32
}

// Status implements [Source].
func (h *host) Status(ctx context.Context, actors bool) (*messages.HostStatus, error) {
	if !actors {
		return nil, errors.New("the actors were not asked for")
	}
	return testStatus(time.Now()), ctx.Err()
}

// Trace implements [Source].
func (h *host) Trace(ctx context.Context) iter.Seq2[messages.TraceRecord, error] {
	return func(yield func(messages.TraceRecord, error) bool) {
		for {
			select {
			case r, more := <-h.records:
				if !more {
					if h.lost != nil {
						yield(messages.TraceRecord{}, h.lost)
					}
					return
				}
				if !yield(r, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// Close implements [Source].
func (h *host) Close() { h.closed.Add(1) }

func newHost(lost error, records ...messages.TraceRecord) *host {
	h := &host{records: make(chan messages.TraceRecord, len(records)+1), lost: lost}
	for _, r := range records {
		h.records <- r
	}
	return h
}

// A host that ends is followed by the next one of its name; each is closed.
func TestFeed(t *testing.T) {
	t.Parallel()
	hosts := []*host{
		newHost(nil, message(1, "a", "b", "First")),
		newHost(errors.New("lost\x1b[2J"), message(1, "a", "b", "Second")),
		newHost(&control.Error{Code: control.CodeUnreachable, Message: "the host cannot be reached: EOF", Cause: io.EOF}, message(1, "a", "b", "Third")),
		newHost(nil, message(1, "a", "b", "Fourth")),
	}
	for _, h := range hosts[:3] {
		close(h.records)
	}
	asked := 0
	again := func(context.Context) (Source, error) {
		if asked++; asked == 1 {
			return nil, errors.New("not yet")
		}
		return hosts[asked-1], nil
	}
	ctx, stop := context.WithCancel(t.Context())
	in := &intake{}
	done := make(chan struct{})
	go func() {
		(&feed{in: in, again: again}).run(ctx, hosts[0])
		close(done)
	}()
	var types, whys []string
	runs := map[int]bool{}
	sawStatus := false
	testkit.Eventually(t, 30*time.Second, func() error {
		f := in.take()
		for _, r := range f.records {
			types = append(types, r.Type)
			runs[r.run] = true
		}
		sawStatus = sawStatus || f.status != nil
		if f.link != nil && !f.link.live {
			whys = append(whys, f.link.why)
		}
		if len(types) < 4 || !sawStatus {
			return errors.New(strings.Join(types, " "))
		}
		return nil
	})
	stop()
	<-done
	if got := strings.Join(types, " "); got != "First Second Third Fourth" || len(runs) != 4 {
		t.Errorf("%s of %d hosts", got, len(runs))
	}
	if got := strings.Join(whys, "; "); got != "the host ended; lost\uFFFD[2J; the host ended" {
		t.Errorf("why: %q", got)
	}
	for i, h := range hosts {
		if n := h.closed.Load(); n != 1 {
			t.Errorf("host %d was closed %d times", i, n)
		}
	}
}

// However much comes between two frames, it is bounded, and what is lost is
// counted.
func TestIntakeIsBounded(t *testing.T) {
	in := &intake{}
	in.attached()
	huge := strings.Repeat("ü", 1<<20)
	const sent = 3*Kept + 7
	for i := range uint64(sent) {
		r := message(i, "a", "b", "T")
		if i == sent-1 {
			r.Type, r.Detail, r.Payload, r.WaitNs, r.RanNs = huge, huge, []byte(huge), math.MaxInt64, math.MinInt64
		}
		in.add(r)
	}
	f := in.take()
	if len(f.records) != Kept || f.skipped != sent-Kept {
		t.Errorf("%d records, %d skipped", len(f.records), f.skipped)
	}
	for i, r := range f.records {
		if want := uint64(sent - Kept + i); r.Request != want {
			t.Fatalf("record %d is of request %d, want %d", i, r.Request, want)
		}
	}
	last := f.records[len(f.records)-1]
	if len(last.Type) > maxName || len(last.Detail) > maxDetail || len(last.Payload) > maxDetail || last.WaitNs != longest || last.RanNs != 0 {
		t.Errorf("not bounded: %d, %d and %d bytes, %d ns, %d ns", len(last.Type), len(last.Detail), len(last.Payload), last.WaitNs, last.RanNs)
	}
	if f = in.take(); len(f.records) > 0 || f.skipped > 0 || f.link != nil {
		t.Errorf("taken twice: %+v", f)
	}
	m := testModel(t, 80, 24)
	for range 5 {
		for i := range uint64(sent) {
			in.add(message(i, "a", "b", "T"))
		}
		m.Update(in.take())
	}
	if n := len(m.records.records); n != Kept || m.dropped != 5*(sent-Kept) || m.seen != 5*sent {
		t.Errorf("%d kept, %d dropped, %d seen", n, m.dropped, m.seen)
	}
}

func TestTimesAreBelievable(t *testing.T) {
	for given, want := range map[time.Time]time.Time{
		{}: earliest, start: start, latest.Add(time.Hour): latest, time.Unix(math.MinInt64, 0): earliest, time.Unix(math.MaxInt64>>1, 0): latest,
	} {
		if got := bounded(messages.TraceRecord{Time: given}).Time; !got.Equal(want) {
			t.Errorf("%v became %v, want %v", given, got, want)
		}
	}
}

// Frames are no closer together than they may be, on the average.
func TestFrameRate(t *testing.T) {
	t.Parallel()
	in := &intake{}
	in.attached()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const wanted = 12
	frames := 0
	began := time.Now()
	in.deliver(ctx, func(frame) {
		if frames++; frames == wanted {
			stop()
		}
		in.add(message(1, "a", "b", "T"))
	})
	if took := time.Since(began); took < (wanted-2)*frameEvery {
		t.Errorf("%d frames in %s", wanted, took)
	}
}

func TestRing(t *testing.T) {
	var r ring
	if r.at(0) != nil || r.drain() != nil {
		t.Error("an empty ring holds something")
	}
	for i := range uint64(Kept + 10) {
		r.push(record{TraceRecord: messages.TraceRecord{Request: i}})
	}
	if r.first != 10 || r.end() != Kept+10 || r.at(9) != nil || r.at(Kept+10) != nil || r.at(10).Request != 10 || r.at(Kept+9).Request != Kept+9 {
		t.Errorf("from %d to %d", r.first, r.end())
	}
}

func TestClean(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"plain ü", 99, "plain ü"},
		{"a\x1b[31mb\r\nc\td\x00", 99, "a\uFFFD[31mb\uFFFD c d\uFFFD"},
		{"a\u202Eb\u2066c\u200Dd\uFE0Fe\u2028f\u009bg", 99, "a\uFFFDb\uFFFDc\uFFFDd\uFFFDe\uFFFDf\uFFFDg"},
		{"\xff\xfe", 99, "\uFFFD\uFFFD"},
		{"aüb", 2, "a…"},
		{"aüb", 3, "aü…"},
		{"a\xff\xff\xff\xff\xffb", 6, "a\uFFFD…"},
	} {
		if got := clean(test.text, test.limit); got != test.want {
			t.Errorf("clean(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

// BenchmarkFlood is one frame of 100,000 records a second, with the screen.
func BenchmarkFlood(b *testing.B) {
	for _, filter := range []string{"", "server=files", "nothing"} {
		b.Run("filter="+filter, func(b *testing.B) {
			in := &intake{}
			in.attached()
			m := testModel(b, 200, 50)
			q, err := parseQuery(filter)
			if err != nil {
				b.Fatal(err)
			}
			m.setQuery(q)
			r := message(1, "metamcp/session/1", "metamcp/pool/breaker/files~1/conn#1", "Call")
			r.After = "ACTIVE"
			const each = 100_000 / FramesPerSecond
			for b.Loop() {
				for range each {
					r.Time = time.Now()
					in.add(r)
				}
				m.Update(in.take())
				m.View()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/each, "ns/record")
		})
	}
}
