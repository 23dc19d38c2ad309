package liveview

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/messages"
)

const (
	statusEvery = 500 * time.Millisecond
	// statusPatience is how long a host may take to describe itself.
	statusPatience = 10 * time.Second
	againEvery     = 500 * time.Millisecond
	// frameEvery is the time between two deliveries, and clockEvery that between
	// two of which the second brings nothing but the time.
	frameEvery = time.Second / FramesPerSecond
	clockEvery = time.Second
)

// How much of a record's texts is kept, in bytes.
const (
	maxName   = 256
	maxDetail = 1024
)

// longest is what is believed of a duration, in nanoseconds: about three years.
const longest = int64(1e17)

// earliest and latest are what is believed of a time: less than 292 years apart,
// so that a time between two has a duration.
var (
	earliest = time.Unix(0, 0).UTC()
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// link says whether a host is attached.
type link struct {
	live bool
	run  int    // counts the hosts that were attached, from 1
	why  string // it is not, in words
	at   time.Time
}

// frame is what came since the last one.
type frame struct {
	now     time.Time
	records []record
	skipped uint64 // records that came and found no room
	status  *messages.HostStatus
	link    *link
}

// record is one record with the host that it is from: each host counts its
// requests from 1.
type record struct {
	messages.TraceRecord
	run int
}

// intake is where the feed leaves what came until the next frame takes it.
type intake struct {
	mu      sync.Mutex
	records ring
	skipped uint64
	status  *messages.HostStatus
	link    *link
	run     int
	gone    time.Time // since when no host is attached; zero: one is, or none was yet
}

func (in *intake) add(r messages.TraceRecord) {
	r = bounded(r)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.records.push(record{r, in.run}) {
		in.skipped++
	}
}

func (in *intake) setStatus(st *messages.HostStatus) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.status = st
}

func (in *intake) attached() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.run++
	in.status, in.gone = nil, time.Time{}
	in.link = &link{live: true, run: in.run, at: time.Now()}
}

func (in *intake) lost(why string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.gone.IsZero() {
		in.gone = time.Now()
	}
	in.link = &link{run: in.run, why: why, at: in.gone}
}

func (in *intake) take() frame {
	in.mu.Lock()
	defer in.mu.Unlock()
	f := frame{now: time.Now(), records: in.records.drain(), skipped: in.skipped, status: in.status, link: in.link}
	in.skipped, in.status, in.link = 0, nil, nil
	return f
}

// deliver hands over frames until ctx ends.
func (in *intake) deliver(ctx context.Context, send func(frame)) {
	tick := time.NewTicker(frameEvery)
	defer tick.Stop()
	var last time.Time
	for {
		f := in.take()
		if len(f.records) > 0 || f.status != nil || f.link != nil || f.now.Sub(last) >= clockEvery {
			last = f.now
			send(f)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// feed fills an intake from one host after the other.
type feed struct {
	in    *intake
	again func(ctx context.Context) (Source, error)
}

// run returns when ctx has ended and src, like its successors, is closed.
func (f *feed) run(ctx context.Context, src Source) {
	tick := time.NewTicker(againEvery)
	defer tick.Stop()
	for {
		if src != nil {
			f.follow(ctx, src)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		src = nil
		if f.again != nil {
			src, _ = f.again(ctx) // why there is none yet is what follow said: the host ended
		}
	}
}

// follow takes what one host sends until it ends, and says so.
func (f *feed) follow(parent context.Context, src Source) {
	defer src.Close()
	ctx, stop := context.WithCancel(parent)
	var asker sync.WaitGroup
	defer asker.Wait()
	defer stop()
	began := false
	why := hostEnded
	for r, err := range src.Trace(ctx) {
		if err != nil {
			why = reason(err)
			break
		}
		if !began {
			began = true
			f.in.attached()
			asker.Go(func() { f.ask(ctx, src) })
		}
		f.in.add(r)
	}
	if parent.Err() == nil {
		f.in.lost(why)
	}
}

// ask takes the host's own description again and again. One that fails is no
// event: the trace ends as well, or the next one succeeds.
func (f *feed) ask(ctx context.Context, src Source) {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		one, cancel := context.WithTimeout(ctx, statusPatience)
		st, err := src.Status(one, true)
		cancel()
		if err == nil && ctx.Err() == nil {
			f.in.setStatus(st)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

const hostEnded = "the host ended"

// reason is an error in few words. A host that ends cuts its streams, and may do so
// with one that was just begun.
func reason(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the host does not answer"
	case control.WentAway(err):
		return hostEnded
	}
	return clean(err.Error(), maxDetail)
}

// bounded cuts long texts, so that so many records take so much memory, and
// makes numbers believable.
func bounded(r messages.TraceRecord) messages.TraceRecord {
	for _, name := range []*string{&r.Kind, &r.From, &r.To, &r.Type, &r.Before, &r.After, &r.Outcome, &r.Server, &r.Tool} {
		if len(*name) > maxName {
			*name = strings.Clone((*name)[:maxName])
		}
	}
	r.WaitNs, r.RanNs = min(max(r.WaitNs, 0), longest), min(max(r.RanNs, 0), longest)
	switch {
	case r.Time.Before(earliest):
		r.Time = earliest
	case r.Time.After(latest):
		r.Time = latest
	}
	if len(r.Detail) > maxDetail {
		r.Detail = strings.Clone(r.Detail[:maxDetail])
	}
	if len(r.Payload) > maxDetail {
		r.Payload = append([]byte(nil), r.Payload[:maxDetail]...)
	}
	return r
}
